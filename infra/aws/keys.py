"""KMS keys that the program owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.stack import Stack
from spec.iam_policy import Statement, document

DELETION_WINDOW_DAYS = 30
"""The days in which a deleted key can be restored (7 to 30). After that, the data encrypted with it is lost."""


@dataclass(frozen=True)
class EncryptionKeyArgs:
    account: Account
    alias: str
    """Without the `alias/` prefix; unique in the account and region."""
    description: str
    tags: Mapping[str, str]
    statements: tuple[Statement, ...] = field(default=())
    """Additional statements of the key's policy. Another one gives control to this account's IAM policies."""
    protected: bool = False
    """The key can be neither deleted nor replaced (`Settings.protected`)."""
    retained: bool = False
    """`pulumi destroy` forgets the key but keeps it, so its data stays readable."""


class EncryptionKey(pulumi.ComponentResource):
    """A symmetric key with yearly rotation and an alias."""

    arn: pulumi.Output[str]

    def __init__(self, name: str, args: EncryptionKeyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:keys:EncryptionKey", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        key = aws.kms.Key(
            f"{name}-key",
            description=args.description,
            enable_key_rotation=True,
            deletion_window_in_days=DELETION_WINDOW_DAYS,
            policy=document(_account_administers(args.account), *args.statements),
            tags={**args.tags, "Name": args.alias},
            opts=pulumi.ResourceOptions(parent=self, protect=args.protected, retain_on_delete=args.retained),
        )
        aws.kms.Alias(f"{name}-alias", name=f"alias/{args.alias}", target_key_id=key.key_id, opts=child)
        self.arn = key.arn
        self.register_outputs({"arn": self.arn})


def _account_administers(account: Account) -> Statement:
    # AWS's default statement with its wildcard. Without it IAM policies do not apply to the key, and a key whose last
    # administrator is deleted can never be managed or deleted again.
    return {
        "Sid": "AccountAdministers",
        "Effect": "Allow",
        "Principal": {"AWS": account.iam_arn("root")},
        "Action": "kms:*",
        "Resource": "*",
    }


def logs_key(name: str, stack: Stack) -> EncryptionKey:
    """Register the KMS key of a stack's log groups."""
    return EncryptionKey(
        name,
        EncryptionKeyArgs(
            account=stack.account,
            alias=f"{stack.cluster_name}-logs",
            description=f"Logs of {stack.cluster_name}",
            statements=(_logs_may_encrypt(stack.account, f"/aws/*/{stack.cluster_name}/*"),),
            tags=stack.tags,
            protected=stack.protected,
        ),
    )


def _logs_may_encrypt(account: Account, log_groups: str) -> Statement:
    """Allow CloudWatch Logs to use the key, only for log groups whose name matches `log_groups`."""
    return {
        "Sid": "CloudWatchLogsEncrypts",
        "Effect": "Allow",
        "Principal": {"Service": account.host("logs")},
        "Action": [
            "kms:Encrypt",
            "kms:Decrypt",
            "kms:ReEncryptFrom",
            "kms:ReEncryptTo",
            "kms:GenerateDataKey",
            "kms:GenerateDataKeyWithoutPlaintext",
            "kms:DescribeKey",
        ],
        "Resource": "*",
        "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": account.arn("logs", f"log-group:{log_groups}")}},
    }
