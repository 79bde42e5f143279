"""ARNs and registries that the stack file names: their partition, region and account against those of the stack."""

import re
from collections.abc import Iterator
from typing import Any

from spec.catalog import REGIONS, partition_of
from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning
from spec.settings.section import Section
from spec.wording import did_you_mean, one_of

_ECR = re.compile(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?", re.ASCII)
# Who uses each does so only within an account: EKS its access entries, the load balancer its certificate, Budgets its topic.
_OF_THE_ACCOUNT = ("cluster.adminRoleArns", "gateway.certificateArn", "cost.topicArn")
# AWS Budgets and Alertmanager send to a topic wherever it is; IAM is in no region.
_OF_ANY_REGION = ("cluster.adminRoleArns", "cost.topicArn", "monitoring.alertTopicArn")


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and text of every valid text below a section, those in lists too."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Section):
        for name, field in type(value).model_fields.items():
            key = field.alias or name
            yield from _texts(value.__dict__.get(name), f"{path}.{key}" if path else key)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


def _arns(subject: Subject) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, partition, region and account of every ARN of the stack file."""
    for path, text in _texts(subject.document):
        if text.startswith("arn:"):
            _, partition, _, region, account, *_ = text.split(":")
            yield path, partition, region, account


@rule
def _arns_are_of_the_partition(subject: Subject) -> Iterator[Problem]:
    """Require ARNs of the partition (aws, aws-us-gov, aws-cn) that the region is in: none reaches into another."""
    region = subject.document.region
    own = partition_of(region)
    for path, partition, _, _ in _arns(subject):
        if partition != own:
            yield Problem(
                path, f"it is of partition {partition} and {region} is of {own}; give one that begins with arn:{own}:"
            )


@rule
def _arns_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    """Require ARNs of the stack's region; topics of cost and monitoring may be of any that there is."""
    region = subject.document.region
    for path, partition, there, _ in _arns(subject):
        if partition != partition_of(region) or not there:
            continue
        if path not in _OF_ANY_REGION and there != region:
            yield Problem(path, f"it is in {there} and the stack in {region}; give one of the same region")
        elif there not in REGIONS:
            near = did_you_mean(there, sorted(REGIONS))
            yield Problem(path, f"there is no region '{there}'; {near}give the ARN as AWS shows it")


@rule
def _arns_are_of_the_account(subject: Subject) -> Iterator[Problem]:
    """Require administrators, certificate and the budget's topic of an account of aws:allowedAccountIds."""
    for path, why in _of_other_accounts(subject):
        if path.startswith(_OF_THE_ACCOUNT):
            yield Problem(path, f"{why}; give one of the same account")


@warning
def _others_have_to_let_the_stack_in(subject: Subject) -> Iterator[Problem]:
    """Warn of topics and queues of another account, which has to let this stack in."""
    for path, why in _of_other_accounts(subject):
        if not path.startswith(_OF_THE_ACCOUNT):
            yield Problem(path, f"{why}; nothing arrives there unless its policy lets this stack's account send")


def _of_other_accounts(subject: Subject) -> Iterator[tuple[str, str]]:
    allowed = subject.document.allowed_account_ids
    for path, _, _, account in _arns(subject):
        if allowed is not None and account not in allowed:
            yield path, f"it is of account {account} and the stack of {one_of(allowed)} (aws:allowedAccountIds)"


@rule
def _services_are_in_the_partition(subject: Subject) -> Iterator[Problem]:
    """Refuse a workspace of Amazon Managed Service for Prometheus in China, which has none."""
    region, monitoring = subject.document.region, subject.document.monitoring
    if monitoring is not None and monitoring.amp is not None and partition_of(region) == "aws-cn":
        yield Problem("monitoring.amp", f"AWS has no Amazon Managed Service for Prometheus in {region}; remove it")


@rule
def _registries_are_of_the_partition(subject: Subject) -> Iterator[Problem]:
    """Require registries of ECR in the stack's partition: nodes have credentials for no other."""
    region = subject.document.region
    for path, text in _texts(subject.document):
        match = _ECR.match(text)
        if match and partition_of(match[1]) != partition_of(region):
            yield Problem(
                path,
                f"its registry is in {match[1]}, for which nodes in {region} have no credentials; "
                f"mirror the image to ECR in {region}",
            )
