"""The EKS control plane of a stack: `triton-eks:cluster`."""

from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import Cidr, never_on_the_internet
from spec.settings.api_access import ApiAccess
from spec.settings.existing import ExistingCluster, nothing_beside_existing
from spec.settings.fields import KubernetesVersion, LogRetention, RoleArn
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Section
from spec.versions import KUBERNETES, KUBERNETES_SUPPORT
from spec.wording import one_of

WARN_BEFORE_END_OF_SUPPORT = timedelta(days=90)
_WIDEST_PUBLIC_PREFIX = 8
_CREATORS_ALONE = ("local", "dev")
_MOST_PUBLIC_RANGES = 40  # a quota of EKS that cannot be raised


class Cluster(Section):
    """The EKS control plane."""

    guide: ClassVar[str] = "docs/aws.md"
    only_without_existing = frozenset(
        {
            "endpoint",
            "public_access_cidrs",
            "api_access",
            "admin_role_arns",
            "view_role_arns",
            "rollout_role_arns",
            "deletion_protection",
            "log_retention_days",
        }
    )

    version: KubernetesVersion = Field(description='the Kubernetes minor version in quotes, like "1.35"')
    endpoint: Literal["private", "public"] = Field(description="the API endpoint: private or public")
    public_access_cidrs: tuple[Cidr, ...] = Field(
        default=(), description="the ranges that reach a public API endpoint; required with endpoint: public, else forbidden"
    )
    api_access: ApiAccess | None = Field(
        default=None, description="who else reaches the API server inside of the VPC; without it: the nodes alone"
    )
    admin_role_arns: tuple[RoleArn, ...] = Field(
        description="the IAM roles that administer the cluster, beside whoever runs the first `up`, whom EKS makes an "
        "administrator; [] for nobody else, in local and dev"
    )
    view_role_arns: tuple[RoleArn, ...] = Field(
        default=(),
        description="the IAM roles that may read the objects of the cluster but Secrets, like the one that previews; "
        "without it: nobody but the administrators",
    )
    rollout_role_arns: tuple[RoleArn, ...] = Field(
        default=(),
        description="the IAM roles that roll out models with `modelctl` (rollout, watch, parity, tune) and have no "
        "other permissions in the cluster; without it: only the administrators do",
    )
    deletion_protection: bool = Field(description="true or false")
    log_retention_days: LogRetention = Field(description="days that control-plane logs are kept, like 365")
    existing: ExistingCluster | None = Field(
        default=None, description="a cluster that is there already; without it: one is made, of the other keys"
    )

    @rule
    def _nothing_of_a_new_one_beside_existing(self, at: Place) -> Iterator[Problem]:
        """Require the keys of a control plane, or `existing` with only `version`, the cluster's version."""
        yield from nothing_beside_existing(self, at, "the cluster is there already, and this program does not change it")

    @property
    def reached_by(self) -> tuple[str, ...]:
        """Return descriptions of all networks and machines that reach the API server, whatever their permissions."""
        if self.existing is not None:
            return ("the nodes", "whoever the cluster's owner lets")
        inside = self.api_access
        return (
            "the nodes",
            *(f"{cidr} inside of the VPC or connected to it" for cidr in (inside.cidrs if inside else ())),
            *(f"{group} inside of the VPC" for group in (inside.security_groups if inside else ())),
            *([f"jobs of {inside.runner.repository} on the runner in the VPC"] if inside and inside.runner else []),
            *(f"{cidr} over the internet" for cidr in self.public_access_cidrs),
        )

    @rule
    def _version_is_pinned_and_supported(self, at: Place) -> Iterator[Problem]:
        """Require a version that spec/versions.py pins and EKS supports."""
        usable = [known for known in KUBERNETES if at.today < KUBERNETES_SUPPORT[known].standard_until]
        window = KUBERNETES_SUPPORT.get(self.version)
        if window and at.today >= window.extended_until:
            yield at.problem(
                "version", f"EKS ended extended support of {self.version} on {window.extended_until}; use {_quoted(usable)}"
            )
        elif self.version not in KUBERNETES:
            ended = window is not None and at.today >= window.standard_until
            support = f"EKS ended standard support of it on {window.standard_until}, and " if window and ended else ""
            yield at.problem(
                "version", f"{support}spec/versions.py has no add-ons and no AMI for {self.version}; use {_quoted(usable)}"
            )

    @warning
    def _version_ends_soon(self, at: Place) -> Iterator[Problem]:
        """Warn from 90 days before the version's standard support ends. Warn during extended support, with its price."""
        window = KUBERNETES_SUPPORT[self.version]
        until = window.standard_until
        if at.today >= until:
            yield at.problem(
                "version",
                f"EKS ended standard support of {self.version} on {until}; extended support costs 0.60 instead of 0.10 US "
                "dollars per cluster hour in most regions (438 instead of 73 a month) and ends on "
                f"{window.extended_until}, when EKS upgrades the cluster by itself; plan the upgrade",
            )
        elif at.today >= until - WARN_BEFORE_END_OF_SUPPORT:
            days = (until - at.today).days
            yield at.problem(
                "version",
                f"EKS ends standard support of {self.version} on {until}, in {days} days; plan the upgrade "
                "(extended support costs six times as much per cluster hour)",
            )

    @rule
    def _endpoint_is_not_open(self, at: Place) -> Iterator[Problem]:
        """Require publicAccessCidrs with a public endpoint, and refuse them with a private one."""
        if self.existing is not None:
            return  # the cluster's owner configures its endpoint
        if self.endpoint == "private" and self.public_access_cidrs:
            yield at.problem(
                "publicAccessCidrs", "a private endpoint has no public access; remove the list or use endpoint: public"
            )
        if self.endpoint == "public" and not self.public_access_cidrs:
            yield at.problem(
                "publicAccessCidrs",
                "a public endpoint without a list is open to the world; list the ranges that may reach it",
            )

    @warning
    def _somebody_reaches_a_private_endpoint(self, at: Place) -> Iterator[Problem]:
        """Warn of a private endpoint that only the nodes can reach. Not in local, because the twin has no network of its
        own."""
        if self.endpoint == "private" and self.api_access is None and at.environment != "local":
            yield at.problem(
                "apiAccess",
                "is missing: the endpoint is private, and its security group admits the nodes alone, so that no VPN or "
                "runner reaches the API server; list ranges in apiAccess.cidrs or groups in apiAccess.securityGroups, or "
                f"go through a node: `python3 -m stackctl tunnel {at.stack} -- pulumi up --stack {at.stack}`",
            )

    @rule
    def _ranges_are_narrow(self, at: Place) -> Iterator[Problem]:
        """Require at most 40 internet ranges, each once and /8 or narrower."""
        if len(self.public_access_cidrs) > _MOST_PUBLIC_RANGES:
            yield at.problem(
                "publicAccessCidrs",
                f"{len(self.public_access_cidrs)} ranges are listed; EKS takes up to {_MOST_PUBLIC_RANGES}: join some",
            )
        for index, cidr in enumerate(self.public_access_cidrs):
            if cidr in self.public_access_cidrs[:index]:
                yield at.problem(f"publicAccessCidrs[{index}]", f"{cidr} is listed twice; list each range once")
            elif (private := never_on_the_internet(cidr)) is not None:
                yield at.problem(
                    f"publicAccessCidrs[{index}]",
                    f"{cidr} is inside {private}, from which nothing comes over the internet; give the public addresses of "
                    "your offices, VPN or runners, or use endpoint: private",
                )
            elif cidr.prefixlen < _WIDEST_PUBLIC_PREFIX:
                yield at.problem(
                    f"publicAccessCidrs[{index}]",
                    f"{cidr} opens the API to {'the world' if cidr.prefixlen == 0 else 'most of the internet'}; "
                    "give the ranges of your offices, VPN or runners",
                )

    @rule
    def _somebody_administers(self, at: Place) -> Iterator[Problem]:
        """Require at least one administrator in addition to the cluster's creator, except in local and dev."""
        if not self.admin_role_arns and at.environment not in _CREATORS_ALONE:
            yield at.problem("adminRoleArns", "is empty; give at least one")

    @rule
    def _roles_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each role once in adminRoleArns, viewRoleArns and rolloutRoleArns: EKS has one access entry for a role.

        In an account a role's name is unique, whatever its path and case:
        https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
        """
        lists = {
            "adminRoleArns": self.admin_role_arns,
            "viewRoleArns": self.view_role_arns,
            "rolloutRoleArns": self.rollout_role_arns,
        }
        earlier: dict[tuple[str, str], tuple[str, str]] = {}  # by role: the first key and the ARN in it
        for key, arns in lists.items():
            for index, arn in enumerate(arns):
                first_key, first = earlier.setdefault(_role(arn), (key, arn))
                if first_key != key:
                    there = f"in {first_key}" if first == arn else f"'{first}' to IAM, which is in {first_key}"
                    remedy = (
                        ", and may do more; remove it here"
                        if first_key == "adminRoleArns"
                        else "; a role has one access entry: remove it from one of the two"
                    )
                    yield at.problem(f"{key}[{index}]", f"'{arn}' is {there}{remedy}")
                elif _role(arn) in map(_role, arns[:index]):
                    other = "" if first == arn else f", and as '{first}', which is the same role to IAM"
                    yield at.problem(f"{key}[{index}]", f"'{arn}' is listed twice{other}; list each role once")


def _role(arn: str) -> tuple[str, str]:
    """Return the account and the lower-case name of the role with this ARN."""
    return arn.split(":")[4], arn.rpartition("/")[2].lower()


def _quoted(versions: list[str]) -> str:
    return one_of(f'"{version}"' for version in versions) or "a newer one, after adding it to spec/versions.py"
