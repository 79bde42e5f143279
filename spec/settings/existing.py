"""Existing resources that this program uses: `network.existing` and `cluster.existing`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.fields import SubnetId, VpcId, ZoneName
from spec.settings.kind import matching
from spec.settings.rule import Place, rule
from spec.settings.section import Section

SubnetIds = dict[ZoneName, SubnetId]
ClusterName = Annotated[
    str,
    matching(
        r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
        "is not the name of an EKS cluster",
        "give the name that `aws eks list-clusters` says",
        quote=True,
    ),
]


class ExistingNetwork(Section):
    """An existing VPC and its subnets, which this program reads and never changes. A zone has one subnet of each kind."""

    guide: ClassVar[str] = "docs/existing.md#existing-vpc"

    vpc_id: VpcId = Field(description="the VPC, like vpc-0123456789abcdef0")
    private_subnet_ids: Annotated[SubnetIds, Field(min_length=1)] = Field(
        description="by zone, the subnets of nodes, pods, internal load balancers and the control plane's interfaces; their "
        "zones are the stack's"
    )
    public_subnet_ids: SubnetIds = Field(
        default_factory=dict, description="by zone, the subnets of a public gateway's load balancer"
    )

    @rule
    def _a_subnet_is_in_one_zone(self, at: Place) -> Iterator[Problem]:
        """Require each subnet in one zone only, and either private or public."""
        for key, subnets in (
            ("privateSubnetIds", self.private_subnet_ids),
            ("publicSubnetIds", self.public_subnet_ids),
        ):
            zones: dict[str, str] = {}
            for zone, subnet in subnets.items():
                other = zones.setdefault(subnet, zone)
                if other != zone:
                    yield at.problem(
                        f"{key}.{zone}", f"{subnet} is said to be in {other} too, and a subnet is in one zone; give another"
                    )
                elif key == "publicSubnetIds" and subnet in self.private_subnet_ids.values():
                    yield at.problem(
                        f"{key}.{zone}",
                        f"{subnet} is one of privateSubnetIds, and its routes lead to the internet or do not; give another",
                    )


class ExistingCluster(Section):
    """An existing EKS cluster. The program adds the stack's nodes and workloads and does not change the cluster itself."""

    guide: ClassVar[str] = "docs/existing.md#existing-cluster"

    name: ClusterName = Field(description="the name that `aws eks list-clusters` says")


def nothing_beside_existing(section: Section, at: Place, what: str) -> Iterator[Problem]:
    """Refuse the keys of a new resource in a section that names an existing one."""
    if getattr(section, "existing", None) is None:
        return
    for name, field in type(section).model_fields.items():
        if name in section.only_without_existing and name in section.model_fields_set:
            key = field.alias or name
            yield at.problem(key, f"{what}; remove the key, or `existing` to have one made")
