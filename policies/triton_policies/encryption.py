"""Rules about KMS keys and log groups."""

from __future__ import annotations

from collections.abc import Iterator

from triton_policies.documents import statements
from triton_policies.findings import Finding, Violation, attempt, is_true, require
from triton_policies.policy import Policy, ResourcePolicy, Settings, number
from triton_policies.reading import Property
from triton_policies.resources import Resource

KEY = "aws:kms/key:Key"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"


def _key(key: Resource, settings: Settings) -> Iterator[Finding]:
    if key["customerMasterKeySpec"].value in (None, "SYMMETRIC_DEFAULT"):
        yield from require(
            key["enableKeyRotation"], is_true, "is {value}: the same key material for ever", fix="set it to true"
        )
    fewest = settings["deletionDays"]
    yield from require(
        key["deletionWindowInDays"],
        # AWS's default is 30 days.
        lambda days: days is None or (isinstance(days, int) and days >= fewest),
        f"is {{value}}, less than {fewest}: what a deleted key encrypted is lost before anyone notices",
        fix=f"set it to {fewest} or more",
    )
    policy = key["policy"]
    if policy.given:
        yield from attempt(lambda: _key_policy(policy))


def _key_policy(policy: Property) -> Iterator[Finding]:
    found = list(statements(policy))
    administered = any(
        statement.allows
        and "kms:*" in statement.actions
        and any(who.endswith(":root") for who in statement.principals.get("AWS", ()))
        for statement in found
    )
    if not administered:
        yield Violation(
            policy.path,
            "does not let the account administer the key: with its last user it can never be changed or deleted",
            fix="let arn:aws:iam::<account>:root do kms:*, which leaves the rest to IAM policies",
        )
    for statement in found:
        if statement.public:
            yield Violation(
                statement.principal_path,
                f"{statement.anyone}: anyone in any account may use the key",
                fix="name who may, or a condition on who asks",
            )


def _log_group(group: Resource, settings: Settings) -> Iterator[Finding]:
    fewest = settings["retentionDays"]
    yield from require(
        group["retentionInDays"],
        lambda days: isinstance(days, int) and days >= fewest,
        f"is {{value}}; {fewest} days or more are asked for here, and for ever is billed for ever",
        fix=f"set it to {fewest} or more",
    )
    key = group["kmsKeyId"]
    if not key.given:
        yield Violation(key.path, "is not set: the logs are encrypted with a key that is not yours", fix="set kmsKeyId")


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="kms-rotation",
        says="KMS keys rotate, take long to delete, and belong to the account and nobody else.",
        severity="high",
        controls=("FSBP KMS.3", "FSBP KMS.4", "FSBP KMS.5"),
        fix="set enableKeyRotation to true",
        settings={"deletionDays": number("the shortest time between the deletion of a key and its end", 30, local=7, dev=7)},
        types=(KEY,),
        judge=_key,
    ),
    ResourcePolicy(
        id="logs-retention-kms",
        says="Logs are kept as long as they are needed, no longer, and under your own key.",
        severity="medium",
        controls=("FSBP CloudWatch.16",),
        fix="set retentionInDays and kmsKeyId",
        settings={"retentionDays": number("the shortest retention", 90, local=1, dev=7, staging=30)},
        types=(LOG_GROUP,),
        judge=_log_group,
    ),
)
