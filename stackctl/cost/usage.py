"""Derive the monthly bill from a stack file: minimum, expected and maximum.

It leaves out costs that depend only on traffic: data transfer, data through NAT and endpoints, requests to KMS, STS and
S3 (except for rollouts that pods follow), traces, samples in AMP. `NOT_COUNTED` is printed with every estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from spec import following
from spec.endpoints import INTERFACE_SERVICES
from spec.queue_timing import POLL_SECONDS
from spec.settings import GpuPool, Network, Settings
from spec.settings.fleets import Fleet
from spec.settings.nodes import CPU_POOL_NAME, SYSTEM_GROUP_NAME, CpuPool
from spec.subnets import nat_zones, zone_names
from spec.versions import KUBERNETES_SUPPORT
from spec.wording import one_of
from stackctl.cost.node_counts import Nodes, cpu_nodes, expected_pods, fleet_nodes, pool_nodes, shares, system_nodes
from stackctl.cost.prices import EC2, HOURS, UNKNOWN, PriceTable, product
from stackctl.cost.throughput import measured

SPOT_SHARE = Decimal("0.5")
"""Assumed share of the on-demand price for a spot instance. It changes by hour, zone and type."""
CONTROL_PLANE_LOGS_GB = Decimal(10)
"""Assumed GB a month of a control plane with all five log types. Audit logs grow with the number of objects."""
CONTAINER_LOGS_GB_PER_DAY = 1
"""Assumed GB a day of a stack's container logs."""
FLOW_LOGS_GB_PER_NODE = Decimal(1)
"""Assumed GB a month of one node's flow logs."""
MILLION_OBSERVATIONS_PER_NODE = Decimal(44)
"""Assumed millions of observations a month of Container Insights.

A node and its pods have 1,000 a minute.
"""
_DAYS = HOURS / 24
_EXACT = Decimal("0.0001")
"""Months of a retention are rounded to this; all other numbers are exact."""
_SILENCES_GIB = 1
_KEYS_OF_EVERY_STACK = 3
_BYTES_PER_GB = Decimal(10**9)

NOT_COUNTED = (
    "not in it, as only traffic decides it: data transfer, data through NAT and endpoints, requests to S3 and KMS, traces, "
    "samples sent to AMP; taxes, discounts and support"
)


@dataclass(frozen=True)
class Amounts:
    """Units a month: minimum, expected, maximum."""

    min: Decimal
    expected: Decimal
    max: Decimal

    @classmethod
    def of(cls, nodes: Nodes) -> Amounts:
        return cls(Decimal(nodes.min), Decimal(nodes.expected), Decimal(nodes.max))

    def __mul__(self, price: Decimal) -> Amounts:
        return Amounts(product(self.min, price), product(self.expected, price), product(self.max, price))

    @property
    def unknown(self) -> bool:
        """Return whether a price in it is unknown."""
        return any(amount.is_nan() for amount in (self.min, self.expected, self.max))

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.min + other.min, self.expected + other.expected, self.max + other.max)


NOTHING = Amounts(Decimal(0), Decimal(0), Decimal(0))


def always(amount: Decimal | int) -> Amounts:
    """Return an amount that does not depend on load."""
    return Amounts(Decimal(amount), Decimal(amount), Decimal(amount))


@dataclass(frozen=True)
class Item:
    """One position of the bill. `part`: the line that includes it. `cost`: US dollars a month."""

    part: str
    what: str
    cost: Amounts


def items(settings: Settings, prices: PriceTable, today: date) -> list[Item]:
    """Return all items of the bill that the stack file determines. Raises EvidenceError."""
    return [
        *_control_plane(settings, prices, today),
        *_groups(settings, prices),
        *_network(settings, prices),
        *_storage(settings, prices),
        *_queue(settings, prices),
        *_logs(settings, prices),
        Item("keys", "KMS keys", always(keys(settings)) * prices.usd("kms.key-month")),
        *_client_keys(settings, prices),
    ]


def _client_keys(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    """Yield the cost of the secrets with API keys, one for each client.

    `stackctl keys` writes them for the gateway's clients.
    """
    gateway = settings.gateway
    if gateway is not None and gateway.has_keys:
        clients = len(gateway.clients or ())
        yield Item("keys", "API keys of clients", always(clients) * prices.usd("secrets.secret-month"))


def keys(settings: Settings) -> int:
    """Return the number of customer managed keys.

    They are for models, for requests with workers, and for logs and secrets of a new cluster.
    """
    own = _KEYS_OF_EVERY_STACK if settings.cluster.existing is None else 1 + (settings.logs is not None)
    return own + (settings.worker is not None)


def part_of(pool: GpuPool) -> str:
    """Return the name of a pool's line."""
    return f"pool {pool.name}"


def notes(settings: Settings) -> list[str]:
    """Return the assumptions of the estimate for this stack, in words."""
    found = []
    capacities = {pool.capacity for pool in settings.gpu.pools}
    if "spot" in capacities:
        found.append(f"spot instances at {SPOT_SHARE:.0%} of the on-demand price")
    if "reservation" in capacities:
        found.append("reserved nodes at the on-demand price while they run; a reservation is billed when it is empty, too")
    if "capacity-block" in capacities:
        found.append("Capacity Blocks are paid when they are bought, and count as 0 here")
    found.extend(_throughput(settings))
    logs = [f"{CONTROL_PLANE_LOGS_GB} GB of control-plane logs a month"] if settings.cluster.existing is None else []
    logs += [f"{FLOW_LOGS_GB_PER_NODE} GB of flow logs a node"] if settings.network.existing is None else []
    if logs:
        found.append(f"assumed: {', '.join(logs)}")
    owned = ["the VPC (NAT gateways, endpoints, flow logs)"] if settings.network.existing is not None else []
    owned += ["the control plane and its logs"] if settings.cluster.existing is not None else []
    if owned:
        found.append(f"not in it, as somebody pays for it already: {', '.join(owned)}")
    if settings.logs is not None:
        found.append(f"assumed: {CONTAINER_LOGS_GB_PER_DAY} GB of containers' logs a day")
        if settings.logs.container_insights is not None:
            found.append("assumed: 1,000 observations of Container Insights a minute for each node with its pods")
    inside = settings.cluster.api_access if settings.cluster.existing is None else None
    if inside is not None and inside.runner is not None:
        found.append("not in it: the runner in the VPC, which CodeBuild charges by the minute of a job")
    return [*found, NOT_COUNTED]


def _throughput(settings: Settings) -> Iterator[str]:
    """Yield the assumptions of the cost of a million inferences.

    A rate from a machine without the pool's GPUs does not hold for its nodes.
    """
    known, types = measured(settings), one_of(dict.fromkeys(_first_type(fleet.stack) for fleet in settings.each_fleet))
    for model, evidence in known.items():
        here = one_of(dict.fromkeys(_first_type(fleet.stack) for fleet in settings.each_fleet if fleet.serves(model)))
        yield (
            f"{model}: {evidence.rate:g} requests/s measured on {evidence.where}, "
            f"priced as a {here}, which may answer at another rate"
        )
    untuned = sorted(settings.models.serving.keys() - known.keys())
    if untuned:
        pods = "; until then the fewest pods are the expected ones" if settings.pod_autoscaler != "none" else ""
        yield (
            f"no measured throughput of {', '.join(untuned)}, so no cost of a million inferences at a measured rate: "
            f"run `modelctl tune` against a server on a {types}{pods}"
        )


def _first_type(settings: Settings) -> str:
    return settings.triton_nodes.instance_types[0]


def _control_plane(settings: Settings, prices: PriceTable, today: date) -> Iterator[Item]:
    if settings.cluster.existing is not None:
        return
    support = KUBERNETES_SUPPORT.get(settings.cluster.version)
    extended = support is not None and today > support.standard_until
    key, what = ("eks.extended-hour", "EKS, extended support") if extended else ("eks.cluster-hour", "EKS")
    yield Item("control plane", what, always(HOURS) * prices.usd(key))


def _groups(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    system, disk = settings.nodes.system, prices.usd("ebs.gp3-gib-month")
    nodes = Amounts.of(system_nodes(settings))
    part = f"{SYSTEM_GROUP_NAME} nodes"
    yield Item(part, " or ".join(system.instance_types), _instances(nodes, system.instance_types, prices, {}))
    yield Item(part, "root volumes", nodes * (disk * system.disk_gib))
    cpu = settings.nodes.cpu
    if cpu is not None:
        nodes, part = Amounts.of(cpu_nodes(settings)), f"{CPU_POOL_NAME} nodes"
        yield Item(part, " or ".join(cpu.instance_types), _instances(nodes, cpu.instance_types, prices, {}))
        yield Item(part, "root volumes", nodes * (disk * cpu.disk_gib))
    for pool in settings.gpu.pools:
        nodes = Amounts.of(pool_nodes(settings, pool))
        share = _price_shares(settings, pool)
        what = f"{' or '.join(pool.instance_types)}, {pool.capacity}"
        yield Item(part_of(pool), what, _instances(nodes, pool.instance_types, prices, share))
        yield Item(part_of(pool), "root volumes", nodes * (disk * pool.disk_gib))


def fleet_cost(settings: Settings, fleet: Fleet[Settings], prices: PriceTable) -> Amounts:
    """Return the cost of the nodes that a fleet fills, including root volumes."""
    return _nodes_cost(settings, fleet.stack.triton_nodes, Amounts.of(fleet_nodes(settings, fleet)), prices)


def node_cost(settings: Settings, group: GpuPool | CpuPool, prices: PriceTable) -> Decimal:
    """Return the expected monthly cost of a group's node, including its root volume."""
    return _nodes_cost(settings, group, always(1), prices).expected


def _nodes_cost(settings: Settings, group: GpuPool | CpuPool, nodes: Amounts, prices: PriceTable) -> Amounts:
    share = _price_shares(settings, group) if isinstance(group, GpuPool) else {}
    disk = prices.usd("ebs.gp3-gib-month") * group.disk_gib
    return _instances(nodes, group.instance_types, prices, share) + nodes * disk


def _price_shares(settings: Settings, pool: GpuPool) -> Mapping[str, Decimal]:
    """Return the paid shares of the on-demand price; a missing share is 1.

    With Karpenter the maximum of a spot pool is the whole price, because Karpenter starts an on-demand node if no spot
    node is available.
    """
    if pool.capacity == "capacity-block":
        return dict.fromkeys(("min", "expected", "max"), Decimal(0))
    if pool.capacity == "spot":
        at_most = Decimal(1) if settings.node_autoscaler == "karpenter" else SPOT_SHARE
        return {"min": SPOT_SHARE, "expected": SPOT_SHARE, "max": at_most}
    return {}


def _instances(nodes: Amounts, types: tuple[str, ...], prices: PriceTable, share: Mapping[str, Decimal]) -> Amounts:
    """Return US dollars a month. The first type is the expected one; the maximum uses the most expensive type."""
    hourly = [prices.usd(f"{EC2}.{name}") for name in types]
    most = UNKNOWN if any(price.is_nan() for price in hourly) else max(hourly)
    one = Decimal(1)
    return Amounts(
        product(nodes.min * HOURS * share.get("min", one), hourly[0]),
        product(nodes.expected * HOURS * share.get("expected", one), hourly[0]),
        product(nodes.max * HOURS * share.get("max", one), most),
    )


def _network(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    zones, address = len(zone_names(settings.network.node_zones)), prices.usd("public-ipv4.hour")
    if settings.network.existing is None:
        yield from _new_vpc(settings.network, prices)
    if settings.gateway is not None:
        units = Amounts(Decimal(0), HOURS, HOURS)
        balancer = always(HOURS) * prices.usd("nlb.hour") + units * prices.usd("nlb.lcu-hour")
        yield Item("network", "load balancer, one capacity unit", balancer)
        if settings.gateway.exposure == "public":
            yield Item("network", "its public addresses", always(zones * HOURS) * address)


def _new_vpc(network: Network, prices: PriceTable) -> Iterator[Item]:
    gateways = len(nat_zones(network.nat, network.zones))
    if gateways:
        yield Item("network", f"{gateways} NAT gateways", always(gateways * HOURS) * prices.usd("nat.hour"))
        yield Item("network", "their public addresses", always(gateways * HOURS) * prices.usd("public-ipv4.hour"))
    endpoints = len(INTERFACE_SERVICES[network.endpoints])
    if endpoints:
        hours = always(endpoints * len(zone_names(network.zones)) * HOURS)
        yield Item("network", f"{endpoints} interface endpoints in each zone", hours * prices.usd("endpoint.hour"))


def _storage(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    release = settings.models.release
    if release is not None:
        yield Item("storage", "models", always(Decimal(release.bytes) / _BYTES_PER_GB) * prices.usd("s3.gb-month"))
        followers = _followers(settings)
        if followers is not None:
            looks = Decimal(HOURS * 3600) / Decimal(following.POLL_SECONDS) / 1_000_000
            yield Item("storage", "rollouts followed by pods", followers * looks * prices.usd("s3.million-reads"))
    fsx = settings.models.fsx
    if fsx is not None:
        price = prices.usd(f"fsx.lustre-{fsx.throughput_mbs_per_tib}-gib-month")
        yield Item("storage", "FSx for Lustre", always(fsx.storage_gib) * price)
    if settings.monitoring is not None:
        gib = settings.monitoring.replicas * (settings.monitoring.storage_gib + _SILENCES_GIB)
        yield Item("storage", "volumes of Prometheus and Alertmanager", always(gib) * prices.usd("ebs.gp3-gib-month"))


def _followers(settings: Settings) -> Amounts | None:
    """Return the number of pods that poll for rollouts of their models, or None."""
    if settings.models.access != "local":
        return None
    counts = []
    for fleet in settings.each_fleet:
        if fleet.stack.triton.rollout == "in-place":
            least, expected = expected_pods(fleet.stack, shares(settings, fleet))
            bounds = fleet.stack.autoscaling
            warm = bounds.warm_pods if bounds is not None else 0  # warm pods serve no model and do not poll
            least, expected = least - warm, expected - warm
            counts.append((least, expected, max(expected, bounds.max_replicas if bounds is not None else least)))
    return Amounts(*(Decimal(sum(each)) for each in zip(*counts, strict=True))) if counts else None


def _queue(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    """Yield the cost of polls by waiting workers. The messages themselves are traffic."""
    worker = settings.worker
    if worker is None:
        return
    fewest = worker.fewest
    most = worker.replicas if worker.replicas is not None else worker.max_replicas or fewest
    polls = HOURS * 3600 / POLL_SECONDS / 1_000_000
    asked = Amounts(Decimal(fewest), Decimal(max(fewest, 1)), Decimal(most)) * polls
    yield Item("queue", "long polls of the workers", asked * prices.usd("sqs.million-requests"))
    yield Item("queue", "2 alarms", always(2) * prices.usd("alarm.month"))


def _logs(settings: Settings, prices: PriceTable) -> Iterator[Item]:
    nodes = Amounts.of(system_nodes(settings)) + Amounts.of(cpu_nodes(settings))
    for pool in settings.gpu.pools:
        nodes = nodes + Amounts.of(pool_nodes(settings, pool))
    sources = []
    if settings.cluster.existing is None:
        sources.append(("control plane", always(CONTROL_PLANE_LOGS_GB), settings.cluster.log_retention_days))
    if settings.network.existing is None:
        sources.append(("flow logs", nodes * FLOW_LOGS_GB_PER_NODE, settings.network.flow_log_retention_days))
    if settings.logs is not None:
        containers = settings.logs.containers
        sources.append(("containers", always(CONTAINER_LOGS_GB_PER_DAY * _DAYS), containers.retention_days))
        if settings.logs.container_insights is not None:
            observed = nodes * MILLION_OBSERVATIONS_PER_NODE
            yield Item("logs", "Container Insights", observed * prices.usd("insights.million-observations"))
    for what, ingested, days in sources:
        yield Item("logs", f"{what}: taken in", ingested * prices.usd("logs.ingested-gb"))
        kept = ingested * (Decimal(days) / _DAYS).quantize(_EXACT)
        yield Item("logs", f"{what}: kept {days} days", kept * prices.usd("logs.stored-gb-month"))
