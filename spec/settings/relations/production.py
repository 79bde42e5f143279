"""The invariants of every stack with `environment: prod`. Each violation names its invariant."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject, of_each_fleet
from spec.settings.rule import rule
from spec.versions import TRITON_UPSTREAM_REPOSITORY

_MIN_LOG_RETENTION_DAYS = 365


def _broken(path: str, invariant: str, found: str, valid: str) -> Problem:
    return Problem(path, f"prod invariant '{invariant}': {found}; {valid}")


def _is_prod(subject: Subject) -> bool:
    return subject.environment == "prod"


@rule
def _private_endpoint(subject: Subject) -> Iterator[Problem]:
    """Require a private API endpoint."""
    if _is_prod(subject) and subject.document.cluster.endpoint != "private":
        yield _broken("cluster.endpoint", "private endpoint", "the API is on the internet", "use private")


@rule
def _roles_are_bounded(subject: Subject) -> Iterator[Problem]:
    """Require the permissions boundary for the stack's roles."""
    if _is_prod(subject) and not subject.document.permissions_boundary:
        yield _broken("permissionsBoundary", "permissions boundary", "roles have no upper limit", "remove the key")


@rule
def _zones_stay(subject: Subject) -> Iterator[Problem]:
    """Require zones by name. A number means the first zones that offer the pools' types (`spec.zones`), which can change."""
    zones = subject.document.network.zones
    if _is_prod(subject) and isinstance(zones, int):
        yield _broken(
            "network.zones",
            "listed zones",
            f"which {zones} are meant changes with what AWS offers, and then subnets are replaced",
            "list them by name",
        )


@rule
def _nat_per_zone(subject: Subject) -> Iterator[Problem]:
    """Require a NAT gateway in each zone."""
    nat = subject.document.network.nat
    if _is_prod(subject) and nat != "per_az":
        yield _broken("network.nat", "NAT per zone", f"'{nat}' lets one zone's failure cut off the others", "use per_az")


@rule
def _deletion_protection(subject: Subject) -> Iterator[Problem]:
    """Require deletion protection for the cluster."""
    if _is_prod(subject) and not subject.document.cluster.deletion_protection:
        yield _broken("cluster.deletionProtection", "deletion protection", "the cluster can be deleted", "use true")


@rule
def _account_is_named(subject: Subject) -> Iterator[Problem]:
    """Require aws:allowedAccountIds."""
    if _is_prod(subject) and subject.document.allowed_account_ids is None:
        yield _broken(
            "aws:allowedAccountIds",
            "one account",
            "whoever is logged in to another account deploys there",
            'give the account, like ["123456789012"]',
        )


@rule
def _audit_trail(subject: Subject) -> Iterator[Problem]:
    """Require at least a year of audit logs."""
    days = subject.document.cluster.log_retention_days
    if _is_prod(subject) and days < _MIN_LOG_RETENTION_DAYS:
        yield _broken(
            "cluster.logRetentionDays",
            "a year of audit logs",
            f"{days} days are kept",
            f"use {_MIN_LOG_RETENTION_DAYS} or more",
        )


@rule
@of_each_fleet
def _survives_a_pod(subject: Subject) -> Iterator[Problem]:
    """Require at least two Triton pods."""
    document = subject.document
    replicas, path = document.triton.replicas, "triton.replicas"
    if replicas is None and document.autoscaling is not None:
        replicas, path = document.autoscaling.min_replicas, "autoscaling.minReplicas"
    if _is_prod(subject) and replicas is not None and replicas < 2:
        yield _broken(path, "two replicas", f"{replicas} pod is an outage at every restart", "use 2 or more")


@rule
def _survives_a_node(subject: Subject) -> Iterator[Problem]:
    """Require at least two system nodes."""
    system = subject.document.nodes.system
    if _is_prod(subject) and system.min < 2:
        yield _broken("nodes.system.min", "two system nodes", f"{system.min} node holds all of DNS", "use 2 or more")


@rule
@of_each_fleet
def _survives_a_zone(subject: Subject) -> Iterator[Problem]:
    """Require at least two zones for Triton's pool; another rule requires two for network.zones."""
    document = subject.document
    for index, pool in enumerate(document.gpu.pools):
        if not _is_prod(subject) or pool.name != document.triton.pool or pool.zones is None:
            continue
        if len(set(pool.zones)) < 2:
            yield _broken(
                f"gpu.pools[{index}].zones",
                "two zones",
                f"Triton's pool '{pool.name}' is in one zone",
                "give two or more, or none for all zones of the network",
            )


@rule
@of_each_fleet
def _capacity_stays(subject: Subject) -> Iterator[Problem]:
    """Refuse spot capacity for Triton's pool, unless Karpenter starts its nodes, because Karpenter falls back to
    on-demand."""
    document = subject.document
    for index, pool in enumerate(document.gpu.pools):
        if not _is_prod(subject) or pool.name != document.triton.pool or pool.capacity != "spot":
            continue
        if document.node_autoscaler != "karpenter":
            yield _broken(
                f"gpu.pools[{index}].capacity",
                "capacity that stays",
                f"AWS takes all spot nodes of Triton's pool '{pool.name}' back when it likes, and nothing starts others",
                "use on-demand, or nodes.autoscaler: karpenter, which falls back to it",
            )


@rule
def _image_is_ones_own(subject: Subject) -> Iterator[Problem]:
    """Require a private registry for Triton's image: each new node pulls it, even if NVIDIA's registry is down."""
    image, version = subject.document.triton.image, subject.document.triton.version
    if _is_prod(subject) and image.startswith(f"{TRITON_UPSTREAM_REPOSITORY}@"):
        yield _broken(
            "triton.image",
            "images of one's own",
            "no node starts while NVIDIA's registry is down",
            f"run `python3 -m stackctl image {version} --stack {subject.stack} --mirror`, which copies it to ECR",
        )


@rule
def _models_are_of_aws(subject: Subject) -> Iterator[Problem]:
    """Require S3 and SQS of AWS, because the stack's keys, policies and alarms apply only to them."""
    document = subject.document
    found = {"models.s3Endpoint": document.models.s3_endpoint}
    if document.worker is not None:
        found["worker.awsEndpoint"] = document.worker.aws_endpoint
    for path, endpoint in found.items():
        if _is_prod(subject) and endpoint is not None:
            yield _broken(path, "AWS itself", f"{endpoint} is another store than the one that this stack makes", "remove it")


@rule
def _watched_twice(subject: Subject) -> Iterator[Problem]:
    """Require at least two Prometheus replicas."""
    monitoring = subject.document.monitoring
    if _is_prod(subject) and monitoring is not None and monitoring.replicas < 2:
        yield _broken("monitoring.replicas", "two Prometheus", "nothing is watched while 1 is replaced", "use 2 or more")


@rule
def _alerts_reach_somebody(subject: Subject) -> Iterator[Problem]:
    """Require a recipient of alerts."""
    monitoring = subject.document.monitoring
    if _is_prod(subject) and monitoring is not None and monitoring.alert_topic_arn is None:
        yield _broken(
            "monitoring.alertTopicArn",
            "alerts reach somebody",
            "they are seen only by who looks",
            "give the ARN of an SNS topic",
        )
