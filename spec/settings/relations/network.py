"""The VPC and what is in it: zones of the region, ways out for images and services, subnets with room for the nodes."""

import re
from collections.abc import Iterator, Sequence

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
    """Require a NAT gateway for a runner in the VPC: GitHub has no endpoint there."""
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
    """Require an image of ECR in the region where there is no NAT."""
    if subject.document.network.nat == "none":
        yield from image_without_the_internet(subject.document.triton.image, subject.document.region, "without NAT")


def image_without_the_internet(image: str, region: str, why: str) -> Iterator[Problem]:
    """Yield that nodes that only reach the services of their region cannot pull the image, unless it is in ECR there."""
    if f".dkr.ecr.{region}.amazonaws.com" not in image.partition("/")[0]:
        yield Problem(
            "triton.image",
            f"'{image.partition('@')[0]}' cannot be reached {why}; "
            f"mirror it to ECR in {region} (<account>.dkr.ecr.{region}.{dns_suffix(partition_of(region))}/...)",
        )


@warning
def _sections_need_the_internet(subject: Subject) -> Iterator[Problem]:
    """Warn of each section whose images or services are not to be had without NAT."""
    document = subject.document
    if document.network.nat != "none":
        return
    for path, needs in _beyond_the_vpc(document):
        yield Problem(path, f"without NAT no pod reaches {', '.join(needs)}; {_WITHOUT_NAT}")


def _beyond_the_vpc(document: Document) -> Iterator[tuple[str, list[str]]]:
    """The key of each section that is given, and what its pods ask for in the internet (registries and AWS's services)."""
    if document.monitoring is not None:
        needs = ["the images of kube-prometheus-stack and dcgm-exporter"]
        needs += ["Amazon Managed Service for Prometheus (aps-workspaces)"] if document.monitoring.amp is not None else []
        needs += ["SNS (sns)"] if document.monitoring.alert_topic_arn is not None else []
        needs += ["the image of OpenCost"] if document.monitoring.open_cost else []
        yield "monitoring", needs
    if document.logs is not None:
        service = [] if "logs" in INTERFACE_SERVICES[document.network.endpoints] else ["CloudWatch Logs (logs)"]
        yield "logs", ["the image of Fluent Bit", *service]
    if document.gateway is not None:
        yield "gateway", ["the images of Envoy Gateway and the AWS Load Balancer Controller"]
    if document.tracing is not None:
        exports = ["X-Ray (xray)"] if document.tracing.exporter == "xray" else []
        yield "tracing", ["the image of the OpenTelemetry collector", *exports]
    if document.pod_autoscaler != "none":
        yield (
            "triton.autoscaler",
            [f"the images of {'KEDA' if document.pod_autoscaler == 'keda' else 'prometheus-adapter'}"],
        )
    elif document.worker is not None and document.worker.autoscaler == "keda":
        yield "worker.scaler", ["the images of KEDA"]
    if document.node_autoscaler != "none":
        yield "nodes.autoscaler", [f"the image of {document.node_autoscaler}"]


@rule
def _private_subnets_hold_every_node(subject: Subject) -> Iterator[Problem]:
    """Require private subnets with addresses for every node and one block of 16 for its pods.

    In the worst case all nodes that may land in a zone do: GPUs are often to be had in one zone only.
    """
    for room, needed in _crowded_zone(subject, full=False):
        yield Problem(
            "network.cidr",
            f"{subject.document.network.cidr} gives each zone's private subnet {room} addresses and the nodes need {needed} "
            "at least (every node group at max, one block of 16 for the pods of each node); use a larger range or lower max",
        )


@warning
def _private_subnets_hold_full_nodes(subject: Subject) -> Iterator[Problem]:
    """Warn of private subnets without addresses for as many pods as nodes may have."""
    if any(_crowded_zone(subject, full=False)):
        return
    for room, needed in _crowded_zone(subject, full=True):
        yield Problem(
            "network.cidr",
            f"{subject.document.network.cidr} gives each zone's private subnet {room} addresses, and nodes that are full of "
            f"pods would need up to {needed} (prefix delegation, every node group at max); pods beyond them wait",
        )


def _crowded_zone(subject: Subject, *, full: bool) -> Iterator[tuple[int, int]]:
    """Yield the addresses that there are and that are needed in the first zone that lacks some."""
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
    """Return the most addresses that nodes may take in each zone: every group at its max, all of its nodes in that zone.

    `full`: with as many pods as they may have; else with a block of addresses each, without which there is none.
    """
    own = sum(addresses_of_nodes(group.types, group.max, full=full) for group in document.nodes.groups)
    needed = dict.fromkeys(zones, own)
    for pool in document.gpu.pools:
        for zone in pool.zones or zones:
            if zone in needed:
                needed[zone] += addresses_of_nodes(pool.types, pool.max, full=full)
    return needed


def addresses_of_nodes(types: Sequence[InstanceType], nodes: int, *, full: bool = True) -> int:
    """Return the most addresses that so many nodes take, of whichever of the types they are."""
    if not types:
        return 0
    return nodes * (addresses_per_node(max_pods(types)) if full else fewest_addresses_per_node())
