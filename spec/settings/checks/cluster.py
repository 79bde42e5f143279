"""The control plane: a version that EKS supports, an API endpoint that not everyone reaches, named administrators."""

from collections.abc import Iterator
from datetime import timedelta

from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem
from spec.versions import KUBERNETES, KUBERNETES_SUPPORT
from spec.wording import one_of

WARN_BEFORE_END_OF_SUPPORT = timedelta(days=90)
_WIDEST_PUBLIC_PREFIX = 8


def _version_is_pinned_and_supported(subject: Subject) -> Iterator[Problem]:
    version = subject.document.cluster.version
    usable = [known for known in KUBERNETES if subject.today < KUBERNETES_SUPPORT[known].standard_until]
    window = KUBERNETES_SUPPORT.get(version)
    if window and subject.today >= window.standard_until:
        yield Problem(
            "cluster.version",
            f"EKS ended standard support of {version} on {window.standard_until}; use {_quoted(usable)}",
        )
    elif version not in KUBERNETES:
        yield Problem(
            "cluster.version",
            f"spec/versions.py has no add-ons and no AMI for {version}; use {_quoted(usable)}",
        )


def _quoted(versions: list[str]) -> str:
    return one_of(f'"{version}"' for version in versions) or "a newer one, after adding it to spec/versions.py"


def _version_ends_soon(subject: Subject) -> Iterator[Problem]:
    version = subject.document.cluster.version
    until = KUBERNETES_SUPPORT[version].standard_until
    if subject.today >= until - WARN_BEFORE_END_OF_SUPPORT:
        days = (until - subject.today).days
        yield Problem(
            "cluster.version",
            f"EKS ends standard support of {version} on {until}, in {days} days; plan the upgrade "
            "(extended support costs six times as much per cluster hour)",
        )


def _endpoint_is_not_open(subject: Subject) -> Iterator[Problem]:
    cluster = subject.document.cluster
    if cluster.endpoint == "private" and cluster.public_access_cidrs:
        yield Problem(
            "cluster.publicAccessCidrs", "a private endpoint has no public access; remove the list or use endpoint: public"
        )
    if cluster.endpoint == "public" and not cluster.public_access_cidrs:
        yield Problem(
            "cluster.publicAccessCidrs",
            "a public endpoint without a list is open to the world; list the ranges that may reach it",
        )


def _ranges_are_narrow(subject: Subject) -> Iterator[Problem]:
    for index, cidr in enumerate(subject.document.cluster.public_access_cidrs):
        if cidr.prefixlen < _WIDEST_PUBLIC_PREFIX:
            yield Problem(
                f"cluster.publicAccessCidrs[{index}]",
                f"{cidr} opens the API to {'the world' if cidr.prefixlen == 0 else 'most of the internet'}; "
                "give the ranges of your offices, VPN or runners",
            )


def _administrators_are_distinct(subject: Subject) -> Iterator[Problem]:
    arns = subject.document.cluster.admin_role_arns
    for index, arn in enumerate(arns):
        if arn in arns[:index]:
            yield Problem(f"cluster.adminRoleArns[{index}]", f"'{arn}' is listed twice; list each role once")


CHECKS: tuple[Check, ...] = (
    _version_is_pinned_and_supported,
    _endpoint_is_not_open,
    _ranges_are_narrow,
    _administrators_are_distinct,
)
WARNINGS: tuple[Check, ...] = (_version_ends_soon,)
