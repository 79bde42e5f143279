"""The costs of a stack, to the cent, at simple prices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from spec.capacity import pods_per_node
from spec.catalog import INSTANCE_TYPES
from spec.settings import Settings, load, read_config
from spec.subnets import nat_zones, zone_names
from stackctl.cost import node_counts, usage
from stackctl.cost.estimate import estimate
from stackctl.cost.node_counts import Nodes
from stackctl.cost.prices import KEYS, Price, PriceTable
from stackctl.cost.usage import Amounts
from tests import snapshots
from tests.paths import ROOT
from tests.spec import stack_config
from tests.spec.existing_config import IN_A_CLUSTER, IN_A_VPC
from tests.spec.test_fleets import FLEETS, THREE

TODAY = date(2026, 11, 21)
DAY = date(2026, 1, 2)

Change = Callable[[dict[str, Any]], None]


def prices(**special: str) -> PriceTable:
    """Return a table where everything costs 1, except for `special`: `nat_hour="0.5"`."""
    usd = dict.fromkeys([*KEYS, *(f"ec2.{name}" for name in INSTANCE_TYPES)], "1")
    for key, value in special.items():
        usd[next(known for known in usd if known.replace("-", "_").replace(".", "_") == key)] = value
    return PriceTable("us-west-2", {key: Price(Decimal(value), DAY) for key, value in usd.items()})


def stack(name: str, change: Change = lambda _: None) -> Settings:
    """Return a repository's stack with some changed values; keys have no project name."""
    file = ROOT / "stacks" / f"Pulumi.{name}.yaml"
    config = read_config(file.read_text(encoding="utf-8"), file.name)
    sections = {key.removeprefix("triton-eks:"): value for key, value in config.items()}
    change(sections)
    return load({key if ":" in key else f"triton-eks:{key}": value for key, value in sections.items()}, name, today=TODAY)


def three_fleets(fleets: list[dict[str, Any]]) -> Settings:
    return stack_config.settings({**THREE, "fleets": fleets})


def amounts(*numbers: float | str) -> Amounts:
    return Amounts(*(Decimal(str(number)) for number in numbers))


def part(settings: Settings, table: PriceTable, name: str) -> Amounts:
    return estimate(settings, table, TODAY).parts[name]


def test_the_control_plane_costs_more_in_extended_support() -> None:
    table = prices(eks_cluster_hour="0.10", eks_extended_hour="0.60")
    assert part(stack("dev"), table, "control plane") == amounts("73.00", "73.00", "73.00")
    later = estimate(stack("dev"), table, date(2027, 12, 1))
    assert later.parts["control plane"] == amounts("438.00", "438.00", "438.00")


def test_nodes_and_their_volumes_are_exact() -> None:
    """dev: 1 to 3 m7i.large with 50 GiB, 2 expected. local: 1 of at most 2, changed only by users."""
    table = prices(ec2_m7i_large="0.1008", ebs_gp3_gib_month="0.08")
    one = 730 * Decimal("0.1008") + 50 * Decimal("0.08")
    assert part(stack("dev"), table, "system nodes") == Amounts(one, 2 * one, 3 * one)
    assert part(stack("local"), table, "system nodes") == Amounts(one, one, 2 * one)
    assert one == Decimal("77.584")


def test_nodes_for_workers_are_there_while_there_is_work() -> None:
    """prod: 0 to 4 m7i.xlarge for 0 to 10 workers of one vCPU, three on each; one node if there are any."""
    table = prices(ec2_m7i_xlarge="0.2", ec2_m6i_xlarge="0.25", ebs_gp3_gib_month="0.08")
    disk = 50 * Decimal("0.08")
    assert part(stack("prod"), table, "cpu nodes") == Amounts(
        Decimal(0), 730 * Decimal("0.2") + disk, 4 * (730 * Decimal("0.25") + disk)
    )

    def four(sections: dict[str, Any]) -> None:
        sections["worker"]["minReplicas"] = 4

    assert node_counts.cpu_nodes(stack("prod", four)) == Nodes(2, 2, 4)
    assert node_counts.cpu_nodes(stack("local")) == Nodes(0, 0, 0)


def test_spot_is_assumed_cheaper_and_the_dearest_type_is_the_most() -> None:
    """dev: one g5 of g5.xlarge or g5.2xlarge on spot, at most four, in a node group, which never falls back to on demand."""
    table = prices(ec2_g5_xlarge="1.006", ec2_g5_2xlarge="1.212", ebs_gp3_gib_month="0")
    one, four = 730 * Decimal("1.006") / 2, 4 * 730 * Decimal("1.212") / 2
    assert part(stack("dev"), table, "pool g5") == Amounts(one, one, four)


def spot(sections: dict[str, Any]) -> None:
    sections["gpu"]["pools"][0]["capacity"] = "spot"


HOURS = Decimal(730)


def test_karpenter_falls_back_to_on_demand() -> None:
    table = prices(ec2_g5_xlarge="2", ebs_gp3_gib_month="0")
    most = stack("staging", spot).gpu.pools[0].max
    found = part(stack("staging", spot), table, "pool g5")
    assert found == Amounts(2 * HOURS, 2 * HOURS, most * 2 * HOURS)  # two pods, on spot nodes at half the price


def test_an_autoscaled_pool_has_the_nodes_that_the_fewest_pods_fill() -> None:
    """prod: Karpenter, at least 3 pods plus one that reserves a node; g5.xlarge has one GPU."""
    settings = stack("prod")
    g5, p4d = settings.gpu.pools
    assert node_counts.expected_pods(settings, {}) == (4, 4)
    assert node_counts.pool_nodes(settings, g5) == Nodes(4, 4, 16)
    assert node_counts.pool_nodes(settings, p4d) == Nodes(0, 0, 2)


def test_each_fleet_has_the_nodes_that_its_pods_fill_and_their_cost() -> None:
    """Two pods on CPUs, one on a node; two to four on g5, one per GPU; two with half of a p4d's GPUs each."""
    settings = three_fleets(FLEETS)
    cpu, g5, p4d = settings.each_fleet
    assert [node_counts.fleet_nodes(settings, fleet) for fleet in (cpu, g5, p4d)] == [
        Nodes(2, 2, 2),
        Nodes(2, 2, 4),
        Nodes(1, 1, 1),
    ]
    assert [node_counts.pool_nodes(settings, pool) for pool in settings.gpu.pools] == [Nodes(2, 2, 4), Nodes(1, 1, 2)]
    assert node_counts.cpu_nodes(settings) == Nodes(2, 2, 4)
    table = prices(ec2_m7i_xlarge="0.2", ec2_g5_xlarge="1", ec2_p4d_24xlarge="22", ebs_gp3_gib_month="0.1")
    found = estimate(settings, table, TODAY).fleets
    assert found["g5"] == Amounts(2 * HOURS + 40, 2 * HOURS + 40, 4 * HOURS + 80)
    assert found["cpu"].expected == 2 * HOURS * Decimal("0.2") + 20
    assert found["p4d"].max == 22 * HOURS + 50
    assert estimate(stack("dev"), table, TODAY).fleets == {}


def test_shared_gpus_take_several_pods() -> None:
    def share(sections: dict[str, Any]) -> None:
        sections["gpu"]["pools"][0]["sharing"] = {"strategy": "time-slicing", "replicas": 4}
        sections["models"]["serving"] = {"speech": sections["models"]["serving"]["speech"]}
        sections["nodes"] = {"autoscaler": "cluster-autoscaler", "system": {**sections["nodes"]["system"], "max": 4}}

    def small(sections: dict[str, Any]) -> None:
        share(sections)
        sections["gpu"]["pools"][0]["instanceTypes"] = ["g5.2xlarge"]
        sections["triton"] |= {"cpu": "500m", "memoryGiB": 6}

    settings = stack("staging", without_digest(share))
    assert pods_per_node(settings, settings.gpu.pools[0]) == 1  # its memory holds one pod of 12 GiB, even if GPUs are shared
    settings = stack("staging", without_digest(small))
    assert pods_per_node(settings, settings.gpu.pools[0]) == 4
    assert node_counts.pool_nodes(settings, settings.gpu.pools[0]).min == 1


def test_network_is_counted_by_zone() -> None:
    table = prices(nat_hour="0.045", public_ipv4_hour="0.005", endpoint_hour="0.01", nlb_hour="0.0225", nlb_lcu_hour="0.006")
    fixed = 730 * (3 * Decimal("0.05") + 12 * 3 * Decimal("0.01") + Decimal("0.0225"))
    unit = 730 * Decimal("0.006")
    assert part(stack("prod"), table, "network") == Amounts(fixed, fixed + unit, fixed + unit)


@pytest.mark.parametrize(
    ("changes", "what", "whose", "keys"),
    [
        (
            {"network": IN_A_VPC["network"]},
            ["control plane: taken in", "control plane: kept 365 days"],
            "the VPC (NAT gateways, endpoints, flow logs)",
            4,
        ),
        (IN_A_CLUSTER, [], "the VPC (NAT gateways, endpoints, flow logs), the control plane and its logs", 3),
    ],
)
def test_what_is_there_already_is_not_counted_again(changes: dict[str, Any], what: list[str], whose: str, keys: int) -> None:
    found = estimate(stack("prod", lambda sections: sections.update(changes)), prices(), TODAY)
    named = [item.what for item in found.items if item.part in ("network", "control plane", "logs")]
    plane = ["EKS"] if what else []
    containers = ["containers: taken in", "containers: kept 90 days"]
    assert named == [*plane, "load balancer, one capacity unit", *what, *containers]
    assert f"not in it, as somebody pays for it already: {whose}" in found.notes
    assert usage.keys(stack("prod", lambda sections: sections.update(changes))) == keys


def test_a_public_load_balancer_has_addresses() -> None:
    def internal(sections: dict[str, Any]) -> None:
        sections["gateway"] |= {"clients": {"app": {}}}

    def public(sections: dict[str, Any]) -> None:
        internal(sections)
        sections["gateway"] |= {"exposure": "public", "allowedCidrs": ["198.51.100.0/24"]}

    table = prices(public_ipv4_hour="0.005")
    more = (
        estimate(stack("prod", public), table, TODAY).total.min - estimate(stack("prod", internal), table, TODAY).total.min
    )
    assert more == 3 * 730 * Decimal("0.005")


def test_storage_queue_and_logs_are_exact() -> None:
    table = prices(s3_gb_month="0.023", ebs_gp3_gib_month="0.08", sqs_million_requests="0.40", alarm_month="0.10")
    found = estimate(stack("prod"), table, TODAY).parts
    models = Decimal(20796380) / 10**9 * Decimal("0.023")
    volumes = 2 * 101 * Decimal("0.08")
    assert found["storage"].min == models + volumes
    polls = Decimal(730 * 3600) / 20 / 10**6 * Decimal("0.40")
    assert found["queue"] == Amounts(Decimal("0.20"), Decimal("0.20") + polls, Decimal("0.20") + 10 * polls)
    nodes = {"min": 3 + 4, "expected": 3 + 1 + 4, "max": 3 + 4 + 16 + 2}
    table = prices(logs_ingested_gb="0.50", logs_stored_gb_month="0")
    containers = 1 * Decimal(730) / 24
    for size, count in nodes.items():
        assert getattr(part(stack("prod"), table, "logs"), size) == (10 + count + containers) * Decimal("0.50")


def test_pods_that_follow_rollouts_ask_s3_every_other_second() -> None:
    def followed(sections: dict[str, Any]) -> None:
        image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:{'0123456789abcdef' * 4}"
        sections["models"] |= {"access": "local", "fetcher": {"image": image}}
        sections["triton"] |= {"rollout": "in-place"}

    def warm(sections: dict[str, Any]) -> None:
        followed(sections)
        sections["autoscaling"]["warmPods"] = 1

    def items(environment: str, change: Change) -> dict[str, Amounts]:
        found = estimate(stack(environment, change), prices(s3_million_reads="0.40"), TODAY)
        return {item.what: item.cost for item in found.items}

    one_pod = Decimal(730 * 3600) / 2 / 10**6 * Decimal("0.40")
    assert items("dev", followed)["rollouts followed by pods"] == Amounts(one_pod, one_pod, 4 * one_pod)
    assert "rollouts followed by pods" not in items("dev", lambda _: None)
    # A warm pod reserves a node, but no controller follows it.
    assert items("staging", warm)["rollouts followed by pods"] == items("staging", followed)["rollouts followed by pods"]


def test_a_runner_is_paid_by_its_jobs_and_not_counted() -> None:
    connection = "arn:aws:codeconnections:us-west-2:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef"

    def more(sections: dict[str, Any]) -> None:
        runner = {"repository": "example/platform", "connectionArn": connection, "actors": [583231]}
        sections["cluster"]["apiAccess"] = {"runner": runner}

    note = "not in it: the runner in the VPC, which CodeBuild charges by the minute of a job"
    assert note in estimate(stack("prod", more), prices(), TODAY).notes
    assert note not in estimate(stack("prod"), prices(), TODAY).notes


def test_container_insights_is_paid_by_nodes() -> None:
    """dev: 2 of at most 3 system nodes, and its pool's nodes; 44 million observations a month each."""

    def more(sections: dict[str, Any]) -> None:
        sections["logs"] = {"containers": {"retentionDays": 30}, "containerInsights": {"retentionDays": 7}}

    found = estimate(stack("dev", more), prices(insights_million_observations="0.21"), TODAY)
    (item,) = [item for item in found.items if item.what == "Container Insights"]
    (flows,) = [item for item in found.items if item.what == "flow logs: taken in"]
    assert item.cost == flows.cost * (44 * Decimal("0.21"))  # a GB of flow logs per node, at a price of 1
    assert item.cost.min >= 2 * 44 * Decimal("0.21")
    assert "assumed: 1,000 observations of Container Insights a minute for each node with its pods" in found.notes


def test_containers_write_a_gigabyte_a_day() -> None:
    def more(sections: dict[str, Any]) -> None:
        sections["logs"] = {"containers": {"retentionDays": 365}}

    found = estimate(stack("dev", more), prices(logs_ingested_gb="0.50", logs_stored_gb_month="0.03"), TODAY)
    (taken, kept) = (item for item in found.items if item.what.startswith("containers"))
    assert (taken.what, taken.cost.expected) == ("containers: taken in", Decimal(365) / 12 * Decimal("0.50"))
    assert (kept.what, kept.cost.expected) == ("containers: kept 365 days", 365 * Decimal("0.03"))
    assert "assumed: 1 GB of containers' logs a day" in found.notes


@pytest.mark.parametrize(("clients", "cost"), [({"a": {}, "b": {}}, "0.80"), (None, None)])
def test_each_client_with_a_key_has_a_secret(clients: dict[str, Any] | None, cost: str | None) -> None:
    def more(sections: dict[str, Any]) -> None:
        sections["gateway"] = {**sections["gateway"], **({"clients": clients} if clients else {})}

    found = estimate(stack("staging", more), prices(secrets_secret_month="0.40"), TODAY).items
    assert [str(item.cost.max) for item in found if item.what == "API keys of clients"] == ([cost] if cost else [])


@pytest.mark.parametrize("name", ["local", "dev", "staging", "prod"])
def test_keys_are_those_that_the_program_registers(name: str) -> None:
    snapshot = snapshots.resources(name)
    assert usage.keys(stack(name)) == sum(label.endswith("(aws:kms/key:Key)") for label in snapshot)


@pytest.mark.parametrize("name", ["local", "dev", "staging", "prod"])
def test_gateways_and_endpoints_are_those_that_the_program_registers(name: str) -> None:
    snapshot = snapshots.resources(name)
    settings = stack(name)
    network, zones = settings.network, len(zone_names(settings.network.zones))
    assert len(nat_zones(network.nat, network.zones)) == sum(
        label.endswith("(aws:ec2/natGateway:NatGateway)") for label in snapshot
    )
    interfaces = [
        entry
        for label, entry in snapshot.items()
        if label.endswith("(aws:ec2/vpcEndpoint:VpcEndpoint)") and entry["inputs"]["vpcEndpointType"] == "Interface"
    ]
    assert all(len(entry["inputs"]["subnetIds"]) == zones for entry in interfaces)
    table = prices(endpoint_hour="1", nat_hour="0", public_ipv4_hour="0", nlb_hour="0", nlb_lcu_hour="0")
    assert part(settings, table, "network").min == len(interfaces) * zones * 730


def test_parts_add_up_and_less_is_never_more() -> None:
    for name in ("local", "dev", "staging", "prod"):
        found = estimate(stack(name), prices(), TODAY)
        for size in ("min", "expected", "max"):
            assert getattr(found.total, size) == sum(getattr(amounts_, size) for amounts_ in found.parts.values())
        for item in found.items:
            assert 0 <= item.cost.min <= item.cost.expected <= item.cost.max, (name, item)


def test_without_a_price_of_a_type_what_rests_on_it_is_unknown_and_the_rest_is_not() -> None:
    """dev: the pool has at least one node."""
    some = {key: price for key, price in prices().prices.items() if key != "ec2.g5.xlarge"}
    found = estimate(stack("dev"), PriceTable("us-west-2", some), TODAY)
    assert {part for part, amounts_ in found.parts.items() if amounts_.unknown} == {"pool g5"}
    assert (found.total.unknown, found.per_million is not None and found.per_million.is_nan()) == (True, True)
    assert found.notes[0] == (
        "unknown, as us-west-2 has no price of it: pool g5: g5.xlarge or g5.2xlarge, spot. "
        "`python3 -m stackctl cost refresh us-west-2` looks prices up, with credentials that may call pricing:GetProducts"
    )


def test_no_node_of_an_unknown_price_costs_nothing() -> None:
    """prod: p4d has no node at first, and at most two."""
    some = {key: price for key, price in prices().prices.items() if not key.startswith("ec2.p4d")}
    found = estimate(stack("prod"), PriceTable("us-west-2", some), TODAY).parts["pool p4d"]
    assert (found.min, found.expected, found.max.is_nan()) == (0, 0, True)


def test_the_file_system_in_front_of_the_bucket_is_counted() -> None:
    def fsx(sections: dict[str, Any]) -> None:
        for key in ("fetcher", "signers"):
            del sections["models"][key]
        sections["models"] |= {"access": "fsx-lustre", "fsx": {"storageGiB": 1200, "throughputMBsPerTiB": 250}}

    table = prices(fsx_lustre_250_gib_month="0.21")
    more = part(stack("prod", without_digest(fsx)), table, "storage").min - part(stack("prod"), table, "storage").min
    assert more + Decimal(20796380) / 10**9 == 1200 * Decimal("0.21")


def test_a_million_inferences_at_the_expected_rates() -> None:
    """prod expects 40 of files, 10 of pictures and 50 of the models that these call, and 124 of sound."""
    found = estimate(stack("prod"), prices(), TODAY)
    assert found.per_million == found.total.expected / (224 * 730 * 3600) * 10**6


def without_digest(change: Change) -> Change:
    """Ignore the digest: a changed want needs another release, which is not tested here."""

    def both(sections: dict[str, Any]) -> None:
        change(sections)
        del sections["models"]["release"]

    return both
