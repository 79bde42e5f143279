"""AWS limits: the size of a bucket or role policy, and the rules of a security group."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning

MOST_READER_ACCOUNTS = 200
"""Each account is in two statements of the bucket policy: 82 bytes with the longest partition name, of at most 20 KB.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-policies.html
"""
MOST_REPLY_CHARACTERS = 7000
"""The limit for the reply queues' ARNs. IAM allows 10,240 characters in all inline policies of a role, and the worker's
other permissions need about 2,000: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html.
"""
USUAL_RULES = 60
MOST_RULES = 1000
"""The default quota of rules in a security group, and the maximum that AWS grants.
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
"""
_LISTENERS = 2
"""Ports of the gateway's load balancer. Its controller creates a rule for each range and port."""
_AROUND_AN_ARN = len('"",')


@rule
def _readers_fit_a_policy(subject: Subject) -> Iterator[Problem]:
    """Refuse more reader accounts than the bucket policy has room for."""
    readers = subject.document.models.reader_accounts or ()
    if len(readers) > MOST_READER_ACCOUNTS:
        yield Problem(
            "models.readerAccounts",
            f"has {len(readers)} accounts, and the bucket's policy has room for {MOST_READER_ACCOUNTS}; list fewer, and let "
            "those promote to the others",
        )


@rule
def _replies_fit_a_policy(subject: Subject) -> Iterator[Problem]:
    """Refuse more reply queues than the policy of the worker role has room for."""
    worker = subject.document.worker
    arns = worker.reply_queue_arns if worker is not None else ()
    characters = sum(len(arn) + _AROUND_AN_ARN for arn in arns)
    if characters > MOST_REPLY_CHARACTERS:
        yield Problem(
            "worker.replyQueueArns",
            f"{len(arns)} queues take {characters} characters of the workers' policy, which has room for "
            f"{MOST_REPLY_CHARACTERS}; list fewer, for example one that tells the others",
        )


def _security_groups(subject: Subject) -> Iterator[tuple[str, int, str]]:
    """Yield path, number and sources of the rules for each list that becomes rules of a security group."""
    access = subject.document.cluster.api_access
    if access is not None:
        named = len(access.cidrs) + len(access.security_groups) + (access.runner is not None)
        yield "cluster.apiAccess", named, "its ranges, groups and runner"
    gateway = subject.document.gateway
    if gateway is not None:
        yield "gateway.allowedCidrs", _LISTENERS * len(gateway.allowed_cidrs), "its ranges, for each of two ports,"


@rule
def _no_quota_has_as_many_rules(subject: Subject) -> Iterator[Problem]:
    """Refuse more ranges and groups than any security group can have rules."""
    for path, rules, what in _security_groups(subject):
        if rules > MOST_RULES:
            yield Problem(
                path,
                f"{what} are {rules} rules of a security group, which never has more than {MOST_RULES}; give wider ranges",
            )


@warning
def _the_usual_quota_has_fewer_rules(subject: Subject) -> Iterator[Problem]:
    """Warn of more ranges and groups than the default quota of rules, which AWS can raise."""
    for path, rules, what in _security_groups(subject):
        if rules > USUAL_RULES:
            yield Problem(
                path,
                f"{what} are {rules} rules of a security group, which has {USUAL_RULES} unless AWS has raised the quota of "
                "the account; have it raised before `pulumi up`, or give wider ranges",
            )
