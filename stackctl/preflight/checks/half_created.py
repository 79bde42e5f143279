"""Check that AWS created every node group and add-on that an earlier `pulumi up` requested."""

from __future__ import annotations

from collections.abc import Iterator

from console.pulumi_program import PulumiUnusable
from stackctl.eks_health import ailments, remedy, state_urns
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown, warn


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each unhealthy one, otherwise one for all."""
    try:
        found = ailments(subject.readers, subject.settings)
    except PulumiUnusable as unreadable:
        yield unknown(
            f"a node group or an add-on of {subject.settings.used_cluster} is not healthy, and whether it is the stack's is "
            f"not known: {unreadable}"
        )
        return
    urns = state_urns(subject.settings.stack) if found else {}
    for one in found:
        finding = fail if one.failed else warn
        yield finding(str(one), remedy(one, subject.settings, urns))
    if not found:
        yield ok("no node group and no add-on has failed")
