"""Check with a dry run that EC2 accepts the launch of each instance type. It starts no instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from spec.versions import KUBERNETES
from stackctl.account.read_only import error_code, one_line
from stackctl.preflight.checks.account_plan import UPGRADE
from stackctl.preflight.checks.ami_release import image_id
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unknown, warn
from stackctl.preflight.checks.instance_offerings import read_offering

_QUOTA = "raise the quota that the check `service quotas` names"
_SUPPORT = "open a case at https://console.aws.amazon.com/support (account and billing; every plan has it)"
_REMEDIES = {
    "Blocked": _SUPPORT,
    "InstanceLimitExceeded": _QUOTA,
    "MaxSpotInstanceCountExceeded": _QUOTA,
    "OptInRequired": "finish the sign-up (payment method, phone number) in the AWS console; AWS may take a day to activate",
    "PendingVerification": "wait for AWS's e-mail, at most 4 hours, and run preflight again; after that, " + _SUPPORT,
    "Unsupported": "choose another type or zone in the stack file",
    "VcpuLimitExceeded": _QUOTA,
}
"""EC2's code -> remedy: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html."""
_ROLE_FOR_SPOT = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_LATER = ("InsufficientInstanceCapacity", "RequestLimitExceeded", "InternalError", "Unavailable", "ServiceUnavailable")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each type and market, in any subnet of its zones: the stack's own may not exist yet.

    EC2 promises to check permissions and parameters, but neither capacity nor quotas.
    """
    ec2, kubernetes, launches = subject.readers("ec2"), subject.settings.cluster.version, _launches(subject)
    release = KUBERNETES[kubernetes].ami_release
    variants = dict.fromkeys(variant for *_, variant in launches)
    images = {variant: image_id(subject, kubernetes, release, variant) for variant in variants}
    offering = read_offering(subject.readers, list(dict.fromkeys(name for name, *_ in launches)))
    subnets = {
        subnet["AvailabilityZone"]: subnet["SubnetId"]
        for page in ec2.get_paginator("describe_subnets").paginate()
        for subnet in page["Subnets"]
    }
    for instance_type, market, variant in launches:
        image = images[variant]
        zones = sorted(offering.zones_of([instance_type]) & subnets.keys())
        if image is None:
            yield unknown(f"{instance_type}: there is no image for a dry run (check `node AMIs`)")
        elif not zones:
            yield unknown(
                f"{instance_type}: no zone that offers it has a subnet for a dry run",
                f"aws ec2 create-default-vpc --region {subject.settings.region}, or run preflight once the stack has a VPC",
            )
        else:
            yield _launch(ec2, instance_type, market, image, subnets[zones[0]])


def _launches(subject: Subject) -> list[tuple[str, str, str]]:
    """Return type, market and image variant of every launch. A Capacity Block launches only during its own time."""
    settings = subject.settings
    on_cpus = [(name, "on-demand", "standard") for name in settings.nodes.instance_types]
    on_gpus = [
        (name, "spot" if pool.capacity == "spot" else "on-demand", "nvidia")
        for pool in settings.gpu.pools
        if pool.capacity != "capacity-block"
        for name in pool.instance_types
    ]
    return list(dict.fromkeys([*on_cpus, *on_gpus]))


def _launch(ec2: Any, instance_type: str, market: str, image: str, subnet: str) -> Finding:
    asked: dict[str, Any] = {"InstanceType": instance_type, "ImageId": image, "SubnetId": subnet}
    if market == "spot":
        asked["InstanceMarketOptions"] = {"MarketType": "spot"}
    try:
        ec2.run_instances(DryRun=True, MinCount=1, MaxCount=1, **asked)
    except ClientError as error:
        return judge(f"{instance_type}, {market}", error)
    raise AssertionError("a dry run always ends with an error")


def judge(launch: str, error: ClientError) -> Finding:
    """Evaluate EC2's answer to a dry run of `launch`."""
    code, said = error_code(error), one_line(str(error.response.get("Error", {}).get("Message", "")))
    if code == "DryRunOperation":
        return ok(f"{launch}: EC2 accepts the launch; that is no promise of capacity")
    if code == "UnauthorizedOperation":
        return unknown(
            f"{launch}: these credentials may not launch it",
            "run preflight with the credentials that run `pulumi up` (ec2:RunInstances), or leave this check unknown",
        )
    if "free tier" in said.lower():
        return fail(f"{launch}: {said}", UPGRADE)
    if code == _ROLE_FOR_SPOT:
        return fail(f"{launch}: {said}", "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")
    if code in _LATER:
        return warn(f"{launch}: {code}: {said}", "try again later, or add types or zones to the pool")
    return fail(
        f"{launch}: {code}: {said}", _REMEDIES.get(code, "correct what EC2 names; the launch of a node would fail too")
    )
