"""Who reaches the API server from inside of the VPC and what is connected to it: `triton-eks:cluster.apiAccess`."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.fields import Cidr, SecurityGroupId, in_no_network, never_on_the_internet
from spec.settings.rule import Place, rule
from spec.settings.section import Section


class ApiAccess(Section):
    """Networks and machines that reach the API server at its addresses inside of the VPC, on port 443."""

    guide: ClassVar[str] = "docs/private-api.md"

    cidrs: tuple[Cidr, ...] = Field(
        default=(), description="private ranges of the VPC, or of a VPN or network that is connected to it"
    )
    security_groups: tuple[SecurityGroupId, ...] = Field(
        default=(), description="security groups of machines in the VPC or in one that is peered with it, like a runner's"
    )

    @rule
    def _names_somebody(self, at: Place) -> Iterator[Problem]:
        """Require one range or security group."""
        if not self.cidrs and not self.security_groups:
            yield at.problem("", "lets nobody in; list ranges in cidrs or groups in securityGroups, or remove the section")

    @rule
    def _ranges_are_private(self, at: Place) -> Iterator[Problem]:
        """Require ranges of private networks, each once."""
        for index, cidr in enumerate(self.cidrs):
            if cidr in self.cidrs[:index]:
                yield at.problem(f"cidrs[{index}]", f"{cidr} is listed twice; list each range once")
            elif (reserved := in_no_network(cidr)) is not None:
                yield at.problem(f"cidrs[{index}]", f"{cidr} is inside {reserved}, in which no other machine has an address")
            elif never_on_the_internet(cidr) is None:
                yield at.problem(
                    f"cidrs[{index}]",
                    f"{cidr} has addresses of the internet, and nobody comes from there to an address inside of the VPC; "
                    "give private ranges (the VPC's, a VPN's, a peered network's), or use endpoint: public with "
                    "publicAccessCidrs",
                )

    @rule
    def _groups_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each security group once."""
        for index, group in enumerate(self.security_groups):
            if group in self.security_groups[:index]:
                yield at.problem(f"securityGroups[{index}]", f"'{group}' is listed twice; list each group once")
