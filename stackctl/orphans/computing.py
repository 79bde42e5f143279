"""Find instances, volumes, snapshots and the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from spec.ownership import tags_of
from stackctl.cost.prices import EC2, HOURS
from stackctl.orphans.search import Item, Leftover, Search, name_of

_LIVING = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
_NODE_CLAIM = "karpenter.sh/nodeclaim"
_VOLUME_CLAIM = "kubernetes.io/created-for/pvc/name"


def cluster(search: Search) -> Iterator[Leftover]:
    """Yield the cluster. While it exists, the stack's other resources are no orphans."""
    name = search.owner.cluster_name
    pages = search.readers("eks").get_paginator("list_clusters").paginate()
    if any(name in page["clusters"] for page in pages):
        yield Leftover(
            "cluster",
            name,
            name,
            "name",
            search.usd_a_month("eks.cluster-hour", HOURS),
            search.remove(f"eks delete-cluster --name {name}"),
        )


def node_groups(search: Search) -> Iterator[Leftover]:
    """Yield the stack's node groups in an existing cluster. While they exist, the stack is up."""
    name, eks = search.existing_cluster, search.readers("eks")
    if name is None or not any(name in page["clusters"] for page in eks.get_paginator("list_clusters").paginate()):
        return
    for group in search.pages("eks", "list_nodegroups", "nodegroups", clusterName=name):
        found = eks.describe_nodegroup(clusterName=name, nodegroupName=group)["nodegroup"]
        reason = search.owner.reason(found.get("tags", {}))
        if reason is not None:
            command = f"eks delete-nodegroup --cluster-name {name} --nodegroup-name {group}"
            yield Leftover("node group", str(group), f"of {name}", reason, 0, search.remove(command))


def instances(search: Search) -> Iterator[Leftover]:
    """Yield instances, except those that are already terminating."""
    for item, reason in _own_instances(search):
        yield _instance(search, item, reason)


def node_claims(search: Search) -> Iterator[Leftover]:
    """Yield the instances of Karpenter, which only Karpenter terminates."""
    for item, reason in _own_instances(search):
        if _NODE_CLAIM in tags_of(item.get("Tags")):
            yield _instance(search, item, reason)


def volumes(search: Search) -> Iterator[Leftover]:
    """Yield the volumes of nodes and of claims in the cluster."""
    for item, reason in _own_volumes(search):
        yield _volume(search, item, reason)


def claimed_volumes(search: Search) -> Iterator[Leftover]:
    """Yield the EBS driver's volumes for claims, which only the driver deletes."""
    for item, reason in _own_volumes(search):
        if _VOLUME_CLAIM in tags_of(item.get("Tags")):
            yield _volume(search, item, reason)


def snapshots(search: Search) -> Iterator[Leftover]:
    """Yield the snapshots of this account."""
    for item, reason in search.own(search.pages("ec2", "describe_snapshots", "Snapshots", OwnerIds=["self"])):
        yield Leftover(
            "snapshot",
            item["SnapshotId"],
            f"{item['VolumeSize']} GiB {name_of(item)}".strip(),
            reason,
            search.usd_a_month("ebs.snapshot-gib-month", item["VolumeSize"]),
            search.remove(f"ec2 delete-snapshot --snapshot-id {item['SnapshotId']}"),
        )


def _own_instances(search: Search) -> Iterator[tuple[Item, str]]:
    reservations = search.pages("ec2", "describe_instances", "Reservations", Filters=_LIVING)
    return search.own(instance for reservation in reservations for instance in reservation["Instances"])


def _instance(search: Search, item: Item, reason: str) -> Leftover:
    return Leftover(
        "instance",
        item["InstanceId"],
        f"{item['InstanceType']} {tags_of(item.get('Tags')).get(_NODE_CLAIM) or name_of(item)}".strip(),
        reason,
        search.usd_a_month(f"{EC2}.{item['InstanceType']}", HOURS),
        search.remove(f"ec2 terminate-instances --instance-ids {item['InstanceId']}"),
    )


def _own_volumes(search: Search) -> Iterator[tuple[Item, str]]:
    return search.own(search.pages("ec2", "describe_volumes", "Volumes"))


def _volume(search: Search, item: Item, reason: str) -> Leftover:
    return Leftover(
        "volume",
        item["VolumeId"],
        f"{item['Size']} GiB {tags_of(item.get('Tags')).get(_VOLUME_CLAIM) or name_of(item)}".strip(),
        reason,
        search.usd_a_month(f"ebs.{item['VolumeType']}-gib-month", item["Size"]),
        search.remove(f"ec2 delete-volume --volume-id {item['VolumeId']}"),
    )
