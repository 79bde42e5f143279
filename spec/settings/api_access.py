"""Access to the API server from the VPC and connected networks: `triton-eks:cluster.apiAccess`."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field

from spec.problem import Problem, describe
from spec.settings.addresses import Cidr, in_no_network, never_on_the_internet
from spec.settings.fields import SecurityGroupId
from spec.settings.kind import Kind, matching, refuse
from spec.settings.rule import Place, rule
from spec.settings.section import Section

_GITHUB_ID = "the number that `gh api users/LOGIN --jq .id` prints"


def _github_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        refuse(f"{describe(value)}; give {_GITHUB_ID}")
    return value


_GithubId = Annotated[int, Kind(_github_id, _GITHUB_ID, {"type": "integer", "minimum": 1})]


class Runner(Section):
    """A runner for GitHub jobs in the VPC's private subnets: a CodeBuild project that starts one runner for each job."""

    guide: ClassVar[str] = "docs/private-api.md"

    repository: Annotated[
        str,
        matching(
            r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}",
            "is not a GitHub repository",
            "give one like ORG/REPO",
        ),
    ] = Field(description="the repository whose workflows may ask for the runner, like ORG/REPO")
    connection_arn: Annotated[
        str,
        matching(
            r"arn:aws[a-z-]*:codeconnections:[a-z0-9-]+:\d{12}:connection/[0-9a-f-]{36}",
            "is not the ARN of a connection",
            "`aws codeconnections list-connections` prints it",
            also_wrong={
                r"^arn:aws[a-z-]*:codestar-connections:": "is a connection under its old name (before July 2024), to which "
                "the roles of bootstrap/ have no rights: make a new one in the console of CodeBuild, and give its ARN"
            },
        ),
    ] = Field(description="the connection to GitHub, made and confirmed in the console of CodeBuild")
    actors: Annotated[tuple[_GithubId, ...], Field(min_length=1)] = Field(
        description="ids of the GitHub accounts whose jobs may start the runner"
    )


class ApiAccess(Section):
    """Networks and machines that reach the API server on port 443 at its addresses in the VPC."""

    guide: ClassVar[str] = "docs/private-api.md"

    cidrs: tuple[Cidr, ...] = Field(
        default=(), description="private ranges of the VPC, or of a VPN or network that is connected to it"
    )
    security_groups: tuple[SecurityGroupId, ...] = Field(
        default=(), description="security groups of machines in the VPC or in one that is peered with it, like a runner's"
    )

    runner: Runner | None = Field(default=None, description="a runner of GitHub's jobs in the VPC; without it: none")

    @rule
    def _names_somebody(self, at: Place) -> Iterator[Problem]:
        """Require at least one range, security group or runner."""
        if not self.cidrs and not self.security_groups and self.runner is None:
            yield at.problem("", "lets nobody in; list ranges in cidrs or groups in securityGroups, or remove the section")

    @rule
    def _ranges_are_private(self, at: Place) -> Iterator[Problem]:
        """Require private ranges, each once."""
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
