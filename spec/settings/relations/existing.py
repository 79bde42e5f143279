"""Rules about an existing VPC or cluster and the rest of the stack."""

import re
from collections.abc import Iterator

from spec import names
from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule

_KINDS = {
    "privateSubnetIds": "private_subnet_ids",
    "publicSubnetIds": "public_subnet_ids",
}


@rule
def _subnets_are_in_zones_of_the_region(subject: Subject) -> Iterator[Problem]:
    """Require that the subnets of an existing VPC are in zones of the region."""
    existing, region = subject.document.network.existing, subject.document.region
    if existing is None:
        return
    for key, name in _KINDS.items():
        for zone in existing.__dict__.get(name, {}):
            if not re.fullmatch(re.escape(region) + "[a-z]", zone):
                yield Problem(
                    f"network.existing.{key}.{zone}", f"'{zone}' is not a zone of {region}; give one like {region}a"
                )


@rule
def _a_control_plane_is_in_two_zones(subject: Subject) -> Iterator[Problem]:
    """Require subnets in two zones of an existing VPC for a new control plane, as EKS does."""
    existing = subject.document.network.existing
    if existing is None or subject.document.cluster.existing is not None:
        return
    if len(existing.private_subnet_ids) < 2:
        yield Problem(
            "network.existing.privateSubnetIds",
            "EKS requires the control plane's subnets in two zones, and this is one; add another",
        )


@rule
def _a_clusters_subnets_are_named(subject: Subject) -> Iterator[Problem]:
    """Require node subnets with an existing cluster. The cluster's own subnets may not be meant for nodes."""
    cluster = subject.document.cluster.existing
    if cluster is not None and subject.document.network.existing is None:
        yield Problem(
            "cluster.existing",
            "nodes go into subnets of the cluster's VPC; give network.existing (its VPC and subnets: aws eks "
            f"describe-cluster --name {cluster.name} --query cluster.resourcesVpcConfig)",
        )


@rule
def _an_existing_cluster_is_another_ones(subject: Subject) -> Iterator[Problem]:
    """Refuse the name of the stack's own cluster. `destroy` treats resources tagged with it as the stack's."""
    cluster, own = subject.document.cluster.existing, names.cluster_name(subject.stack)
    if cluster is not None and cluster.name == own:
        yield Problem(
            "cluster.existing.name",
            f"'{own}' is the cluster that this stack makes itself, and takes away with all that has its name in a tag; "
            "name another one, or remove `existing`",
        )


@rule
def _the_add_ons_of_a_cluster_that_is_there_are_its_owners(subject: Subject) -> Iterator[Problem]:
    """Refuse Container Insights, an add-on, in an existing cluster, which may already have it."""
    logs = subject.document.logs
    if subject.document.cluster.existing is not None and logs is not None and logs.container_insights is not None:
        yield Problem(
            "logs.containerInsights",
            "is an add-on of the cluster, and those of a cluster that is there already are its owner's; remove the section",
        )


@rule
def _a_public_gateway_has_subnets(subject: Subject) -> Iterator[Problem]:
    """Require a public subnet in each node zone for a public gateway. Targets in other zones get no requests."""
    network, gateway = subject.document.network.existing, subject.document.gateway
    if network is None or gateway is None or gateway.exposure != "public":
        return
    missing = [zone for zone in network.private_subnet_ids if zone not in network.public_subnet_ids]
    if missing:
        yield Problem(
            "network.existing.publicSubnetIds",
            f"a public gateway's load balancer sends only to zones that it is in, and there is no subnet for "
            f"{', '.join(missing)}; give one of each zone, or use gateway.exposure: internal",
        )
