"""Checks of ARNs, registries and addresses against the stack's partition, region and account."""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Network
from typing import Any

from spec.catalog import REGIONS, partition_of
from spec.names import dns_suffix
from spec.problem import Problem
from spec.settings.addresses import in_no_network
from spec.settings.images import OWN_IMAGES, example_digest
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule, warning
from spec.settings.section import Section
from spec.wording import did_you_mean, one_of

_ECR = re.compile(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)", re.ASCII)
_LIKE_ECR = re.compile(r"(?!.*\.vpce\.)(.*dkr\.ecr.*|.*\.amazonaws\.com(\.cn)?\.?)")
_REGISTRIES = ("gateway.imageRegistry", "charts.registry")
# Addresses that pods and nodes connect to. On a local machine (`local`) they may be on that machine.
_ASKED_BY_PODS = (
    "models.s3Endpoint",
    "autoscaling.prometheusUrl",
    "gateway.jwt.jwksUri",
    "tracing.endpoint",
    "worker.awsEndpoint",
)
_ASKED_BY_NODES = ("triton.image", *OWN_IMAGES)
_HOST = re.compile(r"(?:https?://)?([^/:]+)")
_CONNECTION = "cluster.apiAccess.runner.connectionArn"
# These are used only within an account: by EKS (access entries), the load balancer (certificate), Budgets (topic) and the
# deployment role (connections).
_ACCESS_ENTRIES = ("cluster.adminRoleArns", "cluster.viewRoleArns", "cluster.rolloutRoleArns")
_OF_THE_ACCOUNT = (*_ACCESS_ENTRIES, "gateway.certificateArn", "cost.topicArn", _CONNECTION)
# Budgets and Alertmanager send to topics in any region, IAM has no regions, and a connection works in all regions
# (https://docs.aws.amazon.com/dtconsole/latest/userguide/welcome-connections-how-it-works-global.html).
_OF_ANY_REGION = (
    *_ACCESS_ENTRIES,
    *("cost.topicArn", "monitoring.alertTopicArn", _CONNECTION),
)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and value of every valid text in a section, including lists."""
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
    """Yield path, partition, region and account of every ARN in the stack file."""
    for path, text in _texts(subject.document):
        if text.startswith("arn:"):
            _, partition, _, region, account, *_ = text.split(":")
            yield path, partition, region, account


@rule
def _readers_of_releases_are_of_other_accounts(subject: Subject) -> Iterator[Problem]:
    """Refuse the stack's own account in readerAccounts, because its roles have their own read policies."""
    own = subject.document.allowed_account_ids or ()
    for index, account in enumerate(subject.document.models.reader_accounts or ()):
        if account in own:
            yield Problem(
                f"models.readerAccounts[{index}]",
                f"{account} is the account of this stack, which reads them anyway; remove it",
            )


@rule
def _arns_are_of_the_partition(subject: Subject) -> Iterator[Problem]:
    """Require ARNs of the region's partition (aws, aws-us-gov, aws-cn), because partitions cannot reach each other."""
    region = subject.document.region
    own = partition_of(region)
    for path, partition, _, _ in _arns(subject):
        if partition != own:
            yield Problem(
                path, f"it is of partition {partition} and {region} is of {own}; give one that begins with arn:{own}:"
            )


@rule
def _arns_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    """Require ARNs of the stack's region. Topics of cost and monitoring and connections may be in any existing region."""
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
    """Require roles, certificate, connection and budget topic of an account of aws:allowedAccountIds."""
    for path, why in _of_other_accounts(subject):
        if path.startswith(_OF_THE_ACCOUNT):
            yield Problem(path, f"{why}; give one of the same account")


@warning
def _others_have_to_let_the_stack_in(subject: Subject) -> Iterator[Problem]:
    """Warn of topics and queues in another account, whose policies have to allow this stack."""
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
    """Refuse Amazon Managed Service for Prometheus and connections to GitHub in China, and budgets in GovCloud.

    GovCloud costs are billed to an account in the other regions, and that account has the budget:
    https://docs.aws.amazon.com/govcloud-us/latest/UserGuide/govcloud-billing.html
    """
    region, monitoring = subject.document.region, subject.document.monitoring
    if subject.document.cost is not None and partition_of(region) == "aws-us-gov":
        yield Problem(
            "cost",
            f"AWS has neither Budgets nor Cost Explorer in {region}; remove it, and make the budget in the account that is "
            "billed for this one",
        )
    if monitoring is not None and monitoring.amp is not None and partition_of(region) == "aws-cn":
        yield Problem("monitoring.amp", f"AWS has no Amazon Managed Service for Prometheus in {region}; remove it")
    access = subject.document.cluster.api_access
    if access is not None and access.runner is not None and partition_of(region) == "aws-cn":
        yield Problem("cluster.apiAccess.runner", f"AWS has no connections to GitHub in {region}; use a runner of your own")


@rule
def _registries_are_of_the_partition(subject: Subject) -> Iterator[Problem]:
    """Require ECR registries in the stack's partition, because nodes have no credentials for others."""
    region = subject.document.region
    for path, text in _texts(subject.document):
        if path not in (*_ASKED_BY_NODES, *_REGISTRIES):
            continue
        host = text.removeprefix("oci://").partition("/")[0].partition(":")[0]
        match = _ECR.fullmatch(host)
        if match is None:
            if _LIKE_ECR.fullmatch(host):
                own = f"<12 digits>.dkr.ecr.{region}.{dns_suffix(partition_of(region))}"
                yield Problem(path, f"'{host}' is no registry of ECR; give one like {own}")
            continue
        there, suffix = match[1], match[2]
        if there not in REGIONS:
            yield Problem(
                path, f"there is no region '{there}'; {did_you_mean(there, sorted(REGIONS))}give the address as ECR has it"
            )
        elif partition_of(there) != partition_of(region):
            yield Problem(
                path,
                f"its registry is in {there}, for which nodes in {region} have no credentials; "
                f"mirror the image to ECR in {region}",
            )
        elif suffix != dns_suffix(partition_of(there)):
            yield Problem(path, f"its registry ends in {suffix}, and those in {there} in {dns_suffix(partition_of(there))}")


@warning
def _others_are_asked(subject: Subject) -> Iterator[Problem]:
    """Warn of addresses that mean each pod or node itself, except in local."""
    for path, text in _texts(subject.document):
        asked = path in _ASKED_BY_PODS or path in _ASKED_BY_NODES
        match = _HOST.match(text) if asked and subject.environment != "local" else None
        if match is not None and _is_oneself(match[1]):
            who = "pod" if path in _ASKED_BY_PODS else "node"
            yield Problem(
                path, f"{match[1]} is each {who} itself, and nothing answers there; give an address in the network"
            )


@warning
def _own_images_are_examples(subject: Subject) -> Iterator[Problem]:
    """Warn about the placeholder digests of the modelctl and worker images in the shipped stack files."""
    for path, image in _texts(subject.document):
        name = OWN_IMAGES.get(path)
        if name is not None and subject.environment != "local" and image.endswith(example_digest(name)):
            yield Problem(
                path,
                "the digest is the example that this repository ships, no registry has it; run `sudo make images` and "
                f"`python3 -m stackctl push-images --stack {subject.stack}` before a real `pulumi up`",
            )


def _is_oneself(host: str) -> bool:
    try:
        return host == "localhost" or host.endswith(".localhost") or in_no_network(IPv4Network(host)) is not None
    except AddressValueError:
        return False
