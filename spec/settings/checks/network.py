"""The VPC: its range, its zones, its ways out, and whether its subnets have room for the nodes."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network

from spec.catalog import INSTANCE_TYPES
from spec.settings.checks.subject import Check, Subject
from spec.settings.model import Document
from spec.settings.problem import Problem
from spec.subnets import LARGEST_VPC_PREFIX, SMALLEST_VPC_PREFIX, addresses_per_node, plan, usable_addresses

_PRIVATE_RANGES = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# EKS takes its services from one of these, whichever does not overlap the VPC.
_SERVICE_RANGES = tuple(IPv4Network(text) for text in ("10.100.0.0/16", "172.20.0.0/16"))
_WITHOUT_NAT = "mirror images to ECR and name them in helm-values, and give services in brackets an endpoint of their own"


def _cidr_is_private(subject: Subject) -> Iterator[Problem]:
    cidr = subject.document.network.cidr
    if not any(cidr.subnet_of(private) for private in _PRIVATE_RANGES):
        listed = ", ".join(str(private) for private in _PRIVATE_RANGES)
        yield Problem("network.cidr", f"{cidr} is not a private range; use one inside {listed}")


def _cidr_is_of_a_usable_size(subject: Subject) -> Iterator[Problem]:
    cidr = subject.document.network.cidr
    if cidr.prefixlen < LARGEST_VPC_PREFIX:
        yield Problem("network.cidr", f"{cidr} is larger than AWS allows; use a /{LARGEST_VPC_PREFIX} to /20")
    if cidr.prefixlen > SMALLEST_VPC_PREFIX:
        yield Problem("network.cidr", f"{cidr} is too small for three subnets in each of four zones; use a /16 to /20")


def _cidr_leaves_services_alone(subject: Subject) -> Iterator[Problem]:
    cidr = subject.document.network.cidr
    for services in _SERVICE_RANGES:
        if cidr.overlaps(services):
            yield Problem(
                "network.cidr",
                f"{cidr} overlaps {services}, from which EKS may take Kubernetes services; use another range",
            )


def _zones_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    zones = subject.document.network.zones
    if isinstance(zones, int):
        return
    for index, zone in enumerate(zones):
        path = f"network.zones[{index}]"
        if zone in zones[:index]:
            yield Problem(path, f"'{zone}' is listed twice; list each zone once")
        else:
            region = subject.document.region
            if not re.fullmatch(re.escape(region) + "[a-z]", zone):
                yield Problem(path, f"'{zone}' is not a zone of {region}; give one like {region}a")


def _images_can_be_pulled(subject: Subject) -> Iterator[Problem]:
    network = subject.document.network
    if network.nat != "none":
        return
    if network.endpoints != "full":
        yield Problem(
            "network.nat",
            f"'none' with endpoints '{network.endpoints}' leaves nodes no way to join the cluster or to pull images; "
            "use single or per_az, or endpoints: full",
        )
    image, region = subject.document.triton.image, subject.document.region
    if f".dkr.ecr.{region}.amazonaws.com" not in image.partition("/")[0]:
        yield Problem(
            "triton.image",
            f"'{image.partition('@')[0]}' cannot be reached without NAT; "
            f"mirror it to ECR in {region} (<account>.dkr.ecr.{region}.amazonaws.com/...)",
        )


def _device_plugin_needs_a_mirror(subject: Subject) -> Iterator[Problem]:
    if subject.document.network.nat == "none":
        yield Problem(
            "network.nat",
            "without NAT no node reaches nvcr.io, from which the device plugin comes, and no GPU would be advertised; "
            "mirror nvidia/k8s-device-plugin to ECR and name it as image.repository in "
            "helm-values/nvidia-device-plugin/base.yaml",
        )


def _sections_need_the_internet(subject: Subject) -> Iterator[Problem]:
    """One warning for each section: their images are of public registries, some of their services have no endpoint here."""
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


def _private_subnets_hold_every_node(subject: Subject) -> Iterator[Problem]:
    """In the worst case all nodes that may land in a zone do: GPUs are often to be had in one zone only."""
    network = subject.document.network
    if not LARGEST_VPC_PREFIX <= network.cidr.prefixlen <= SMALLEST_VPC_PREFIX:
        return
    names = [str(n + 1) for n in range(network.zones)] if isinstance(network.zones, int) else list(network.zones)
    if len(set(names)) != len(names):
        return
    needed = addresses_per_zone(subject.document, names)
    for block in plan(network.cidr, names).zones:
        room = usable_addresses(block.private)
        if needed[block.zone] > room:
            yield Problem(
                "network.cidr",
                f"{network.cidr} gives each zone's private subnet {room} addresses and the nodes need up to "
                f"{needed[block.zone]} (prefix delegation, every node group at max); use a larger range or lower max",
            )
            return


def addresses_per_zone(document: Document, zones: Sequence[str]) -> dict[str, int]:
    """The most addresses that nodes may take in each zone: every group at its max, all of its nodes in that zone."""
    system = document.nodes.system
    needed = dict.fromkeys(zones, addresses_of_nodes(system.instance_types, system.max))
    for pool in document.gpu.pools:
        for zone in pool.zones or zones:
            if zone in needed:
                needed[zone] += addresses_of_nodes(pool.instance_types, pool.max)
    return needed


def addresses_of_nodes(instance_types: tuple[str, ...], nodes: int) -> int:
    """The most addresses that so many nodes take, of whichever of the types they are."""
    known = [INSTANCE_TYPES[name] for name in instance_types if name in INSTANCE_TYPES]
    return nodes * max((addresses_per_node(t.max_pods, max(2, t.efa_interfaces)) for t in known), default=0)


CHECKS: tuple[Check, ...] = (
    _cidr_is_private,
    _cidr_is_of_a_usable_size,
    _cidr_leaves_services_alone,
    _zones_are_of_the_region,
    _images_can_be_pulled,
    _private_subnets_hold_every_node,
)
WARNINGS: tuple[Check, ...] = (_device_plugin_needs_a_mirror, _sections_need_the_internet)
