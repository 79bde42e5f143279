"""Check that the account has the role that Karpenter needs for spot instances."""

from __future__ import annotations

from collections.abc import Iterator

from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok

NAME = "AWSServiceRoleForEC2Spot"


def check(subject: Subject) -> Iterator[Finding]:
    """Yield whether the role exists, if Karpenter may start spot instances.

    Node groups need no check: EC2 Auto Scaling creates the role for them
    (https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-service-linked-role.html).
    """
    settings = subject.settings
    # If a reservation is full, its pool continues with spot.
    pools = [pool.name for pool in settings.gpu.pools if pool.capacity in ("spot", "reservation")]
    if settings.nodes.autoscaler != "karpenter" or not pools:
        yield ok("not needed: Karpenter starts no spot instances")
        return
    if or_none(lambda: subject.readers("iam").get_role(RoleName=NAME), "NoSuchEntity") is None:
        yield fail(
            f"the account has no role {NAME}: Karpenter gets no spot instance for pool {', '.join(pools)}",
            "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com, or `pulumi up` in bootstrap/",
        )
        return
    yield ok(f"the account has {NAME}")
