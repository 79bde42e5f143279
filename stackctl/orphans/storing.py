"""Find buckets, file systems, queues, keys, alarms, certificates and log groups."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from decimal import Decimal

from spec.names import container_log_group, control_plane_log_group, flow_log_group, queue_url
from spec.ownership import tags_of
from stackctl.orphans.search import Leftover, Search, name_of

_GIB = 1024**3
_KEY_ON_ITS_WAY_OUT = ("PendingDeletion", "PendingReplicaDeletion")


def buckets(search: Search) -> Iterator[Leftover]:
    """Yield buckets. The bucket of production's models is meant to stay."""
    for arn, reason in _tagged(search, "s3"):
        name = arn.rpartition(":")[2]
        yield Leftover("bucket", name, name, reason, None, search.remove(f"s3 rb s3://{name} --force"))


def file_systems(search: Search) -> Iterator[Leftover]:
    """Yield FSx file systems, billed by the GiB even if they are not mounted."""
    for item, reason in search.own(search.pages("fsx", "describe_file_systems", "FileSystems")):
        if item.get("Lifecycle") == "DELETING":
            continue
        id, gib = item["FileSystemId"], item["StorageCapacity"]
        throughput = item.get("LustreConfiguration", {}).get("PerUnitStorageThroughput", 0)
        yield Leftover(
            "file system",
            id,
            f"{gib} GiB {name_of(item)}".strip(),
            reason,
            search.usd_a_month(f"fsx.lustre-{throughput}-gib-month", gib),
            search.remove(f"fsx delete-file-system --file-system-id {id}"),
        )


def queues(search: Search) -> Iterator[Leftover]:
    """Yield queues, which are billed by the request."""
    for arn, reason in _tagged(search, "sqs"):
        _, partition, _, region, account, name = arn.split(":", maxsplit=5)
        url = queue_url(name, account, region, partition)
        yield Leftover("queue", name, name, reason, None, search.remove(f"sqs delete-queue --queue-url {url}"))


def alarms(search: Search) -> Iterator[Leftover]:
    """Yield CloudWatch alarms."""
    for arn, reason in _tagged(search, "cloudwatch:alarm"):
        name = arn.rpartition("alarm:")[2]
        # Anyone who may create an alarm may name it `a; rm -rf ~`.
        command = f"cloudwatch delete-alarms --alarm-names {shlex.quote(name)}"
        yield Leftover("alarm", name, name, reason, search.usd_a_month("alarm.month"), search.remove(command))


def certificates(search: Search) -> Iterator[Leftover]:
    """Yield ACM certificates, which are free."""
    for arn, reason in _tagged(search, "acm:certificate"):
        remove = search.remove(f"acm delete-certificate --certificate-arn {arn}")
        yield Leftover("certificate", arn.rpartition("/")[2], "", reason, 0, remove)


def keys(search: Search) -> Iterator[Leftover]:
    """Yield KMS keys, except those with a scheduled deletion, which are free."""
    for arn, reason in _tagged(search, "kms:key"):
        described = search.readers("kms").describe_key(KeyId=arn)["KeyMetadata"]
        if described["KeyState"] in _KEY_ON_ITS_WAY_OUT:
            continue
        id = described["KeyId"]
        command = f"kms schedule-key-deletion --key-id {id} --pending-window-in-days 30"
        yield Leftover(
            "KMS key",
            id,
            described.get("Description", ""),
            reason,
            search.usd_a_month("kms.key-month"),
            search.remove(command),
        )


def log_groups(search: Search) -> Iterator[Leftover]:
    """Yield log groups by name, because recreated groups have no tags.

    EKS writes its last lines after the cluster is deleted, and creates its group again. The agent of Container Insights
    creates its groups next to the group of the containers.
    """
    cluster = search.owner.cluster_name
    containers = container_log_group(cluster).rpartition("/")[0]
    for prefix in (control_plane_log_group(cluster), flow_log_group(cluster), f"{containers}/"):
        for item in search.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            name = item["logGroupName"]
            if name == prefix or prefix.endswith("/"):
                cost = search.usd_a_month("logs.stored-gb-month", Decimal(item.get("storedBytes", 0)) / _GIB)
                yield Leftover(
                    "log group", name, name, "name", cost, search.remove(f"logs delete-log-group --log-group-name {name}")
                )


def _tagged(search: Search, resource_type: str) -> Iterator[tuple[str, str]]:
    """Yield ARNs of one type that have the stack's tags, each with the reason."""
    filters = [{"Key": "environment", "Values": [search.owner.stack]}]
    arguments = {"TagFilters": filters, "ResourceTypeFilters": [resource_type]}
    for item in search.pages("resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", **arguments):
        reason = search.owner.reason(tags_of(item["Tags"]))
        if reason is not None:
            yield item["ResourceARN"], reason
