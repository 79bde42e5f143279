"""The VPC and its resources: zones of the region, routes to images and services, subnets with room for the nodes."""

import re
from collections.abc import Iterator, Mapping, Sequence

from spec.catalog import InstanceType, max_pods, partition_of
from spec.endpoints import INTERFACE_SERVICES
from spec.names import dns_suffix
from spec.problem import Problem
from spec.settings.model import Document
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning
from spec.subnets import (
    LARGEST_VPC_PREFIX,
    addresses_per_node,
    fewest_addresses_per_node,
    plan,
    smallest_prefix,
    usable_addresses,
    zone_names,
)

_WITHOUT_NAT = "mirror images to ECR and name them in helm-values, and give services in brackets an endpoint of their own"


@rule
def _a_runner_reaches_github(subject: Subject) -> Iterator[Problem]:
    """Require a NAT gateway for a runner in the VPC, because GitHub has no VPC endpoint."""
    network, inside = subject.document.network, subject.document.cluster.api_access
    if inside is not None and inside.runner is not None and network.existing is None and network.nat == "none":
        yield Problem(
            "cluster.apiAccess.runner", "reaches GitHub through NAT alone; use network.nat: single, or a runner elsewhere"
        )


@rule
def _zones_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    """Require zones of the region."""
    zones = subject.document.network.zones
    if isinstance(zones, int):
        return
    for index, zone in enumerate(zones):
        path = f"network.zones[{index}]"
        if zone not in zones[:index]:
            region = subject.document.region
            if not re.fullmatch(re.escape(region) + "[a-z]", zone):
                yield Problem(path, f"'{zone}' is not a zone of {region}; give one like {region}a")


@rule
def _images_can_be_pulled(subject: Subject) -> Iterator[Problem]:
    """Require an ECR image in the region if there is no NAT."""
    if subject.document.network.nat == "none":
        yield from image_without_the_internet(subject.document.triton.image, subject.document.region, "without NAT")


def image_without_the_internet(image: str, region: str, why: str) -> Iterator[Problem]:
    """Yield a problem if the image is not in the region's ECR. These nodes reach only services of their region."""
    if f".dkr.ecr.{region}.amazonaws.com" not in image.partition("/")[0]:
        yield Problem(
            "triton.image",
            f"'{image.partition('@')[0]}' cannot be reached {why}; "
            f"mirror it to ECR in {region} (<account>.dkr.ecr.{region}.{dns_suffix(partition_of(region))}/...)",
        )


@warning
def _sections_need_the_internet(subject: Subject) -> Iterator[Problem]:
    """Warn of each section whose images or services cannot be reached without NAT."""
    document = subject.document
    if document.network.nat != "none":
        return
    services = _services_without_endpoint(document)
    for key, charts in document.charts_by_key.items():
        # A rule of network.nat already reports that GPU nodes are of no use then.
        if charts and key != "gpu":
            needs = [f"the images of {' and '.join(chart.name for chart in charts)}", *services.get(key, ())]
            yield Problem(key, f"without NAT no pod reaches {', '.join(needs)}; {_WITHOUT_NAT}")


def _services_without_endpoint(document: Document) -> Mapping[str, list[str]]:
    """Return the AWS services that each section's pods call and that have no endpoint in the stack."""
    monitoring, tracing = document.monitoring, document.tracing
    found: dict[str, list[str]] = {"monitoring": [], "logs": [], "tracing": []}
    if monitoring is not None and monitoring.amp is not None:
        found["monitoring"].append("Amazon Managed Service for Prometheus (aps-workspaces)")
    if monitoring is not None and monitoring.alert_topic_arn is not None:
        found["monitoring"].append("SNS (sns)")
    if "logs" not in INTERFACE_SERVICES[document.network.endpoints]:
        found["logs"].append("CloudWatch Logs (logs)")
    if tracing is not None and tracing.exporter == "xray":
        found["tracing"].append("X-Ray (xray)")
    return found


@rule
def _private_subnets_hold_every_node(subject: Subject) -> Iterator[Problem]:
    """Require private subnets with addresses for every node and one block of 16 for its pods.

    In the worst case all nodes run in one zone, because GPU capacity is often available in only one.
    """
    for room, needed in _crowded_zone(subject, full=False):
        yield Problem(
            "network.cidr",
            f"{subject.document.network.cidr} gives each zone's private subnet {room} addresses and the nodes need {needed} "
            "at least (every node group at max, one block of 16 for the pods of each node); use a larger range or lower max",
        )


@warning
def _private_subnets_hold_full_nodes(subject: Subject) -> Iterator[Problem]:
    """Warn of private subnets that lack addresses for nodes with the maximum of pods."""
    if any(_crowded_zone(subject, full=False)):
        return
    for room, needed in _crowded_zone(subject, full=True):
        yield Problem(
            "network.cidr",
            f"{subject.document.network.cidr} gives each zone's private subnet {room} addresses, and nodes that are full of "
            f"pods would need up to {needed} (prefix delegation, every node group at max); pods beyond them wait",
        )


def _crowded_zone(subject: Subject, *, full: bool) -> Iterator[tuple[int, int]]:
    """Yield the available and the required addresses of the first zone that lacks some."""
    network = subject.document.network
    names = zone_names(network.zones)
    if not LARGEST_VPC_PREFIX <= network.cidr.prefixlen <= smallest_prefix(len(names)) or len(set(names)) != len(names):
        return
    needed = addresses_per_zone(subject.document, names, full=full)
    for block in plan(network.cidr, names).zones:
        room = usable_addresses(block.private)
        if needed[block.zone] > room:
            yield room, needed[block.zone]
            return


def addresses_per_zone(document: Document, zones: Sequence[str], *, full: bool = True) -> dict[str, int]:
    """Return the most addresses that nodes may need in each zone: every group at its max, with all nodes in that zone.

    With `full`, each node has its maximum of pods; otherwise it has one block of addresses, the minimum of a node.
    """
    own = sum(addresses_of_nodes(group.types, group.max, full=full) for group in document.nodes.groups)
    needed = dict.fromkeys(zones, own)
    for pool in document.gpu.pools:
        for zone in pool.zones or zones:
            if zone in needed:
                needed[zone] += addresses_of_nodes(pool.types, pool.max, full=full)
    return needed


def addresses_of_nodes(types: Sequence[InstanceType], nodes: int, *, full: bool = True) -> int:
    """Return the most addresses that this many nodes of any of the types need."""
    if not types:
        return 0
    return nodes * (addresses_per_node(max_pods(types)) if full else fewest_addresses_per_node())
