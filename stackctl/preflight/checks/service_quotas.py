"""Check that the quotas have room for the stack next to the account's other usage."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from stackctl.account.read_only import Readers, or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unanswered, warn
from stackctl.preflight.checks.usage import used_by_others
from stackctl.quotas import QuotaNeed, needed_quotas

_NO_VALUE_OF_THE_ACCOUNT = "NoSuchResourceException"


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each quota that the stack uses."""
    for need in needed_quotas(subject.settings):
        try:
            yield judge(need, quota_value(subject.readers, need), used_by_others(need.quota, subject), subject)
        except ClientError as error:
            yield unanswered(error, subject.readers)


def judge(need: QuotaNeed, value: int, used: int, subject: Subject) -> Finding:
    """Compare the stack's need with a quota of `value`, of which others use `used`."""
    quota, left = need.quota, max(0, value - used)
    where = " in the fullest zone" if quota.per_zone else ""
    says = f"{quota.name} ({quota.code}): {value} {quota.unit}, {used} used by others{where}"
    takers = "; ".join(need.takers)
    if left < need.at_start:
        return fail(f"{says}; `pulumi up` takes {need.at_start} ({takers})", _remedy(need, used, subject))
    if left < need.at_most:
        return warn(f"{says}; scaling ends at {left} of {need.at_most} ({takers})", _remedy(need, used, subject))
    return ok(f"{says}; needs up to {need.at_most}")


def quota_value(readers: Readers, need: QuotaNeed) -> int:
    """Return the account's quota, or AWS's default if the account has no own value."""
    client, codes = readers("service-quotas"), {"ServiceCode": need.quota.service, "QuotaCode": need.quota.code}
    answer = or_none(lambda: client.get_service_quota(**codes), _NO_VALUE_OF_THE_ACCOUNT)
    if answer is None:
        answer = client.get_aws_default_service_quota(**codes)
    return int(answer["Quota"]["Value"])


def _remedy(need: QuotaNeed, used: int, subject: Subject) -> str:
    region, quota = subject.settings.region, need.quota
    return (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code {quota.service} "
        f"--quota-code {quota.code} --desired-value {used + need.at_most}  "
        f"(or https://{region}.console.aws.amazon.com/servicequotas/home/services/{quota.service}/quotas/{quota.code}); "
        "for GPUs AWS may take days"
    )
