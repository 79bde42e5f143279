"""File systems of FSx for Lustre. moto makes and deletes them; what it drops or cannot change is a record of the twin.

No file is ever served: there is no Lustre in the twin.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from twin.aws.base import records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Difference, Handler, Values, known
from twin.aws.ec2 import api
from twin.aws.kms import keys

_LUSTRE_PORT = 988
_SMALLEST_GIB, _STEP_GIB = 1200, 2400
_THROUGHPUTS = (125, 250, 500, 1000)
_MOST_BACKUP_DAYS = 90
_MAINTENANCE = re.compile(r"[1-7]:([01]\d|2[0-3]):[0-5]\d")
_CONFIGURATION: dict[str, str] = {
    "automaticBackupRetentionDays": "AutomaticBackupRetentionDays",
    "deploymentType": "DeploymentType",
    "perUnitStorageThroughput": "PerUnitStorageThroughput",
    "weeklyMaintenanceStartTime": "WeeklyMaintenanceStartTime",
}


def record_name(id: str) -> str:
    """Return where the record of the file system of this id is kept."""
    return records.path("fsx", "file-systems", id)


def find(clients: Clients, id: str) -> dict[str, Any] | None:
    """Return moto's description of the file system, or None: moto answers an unknown id with [], AWS with an error."""
    found = clients("fsx").describe_file_systems(FileSystemIds=[id])["FileSystems"]
    return dict(found[0]) if found else None


class LustreFileSystem(Handler):
    """Only what this program makes: persistent 2 on SSD, with a key and a group of its own."""

    token = "aws:fsx/lustreFileSystem:LustreFileSystem"
    inputs = frozenset(
        {
            "fileSystemTypeVersion",
            "kmsKeyId",
            "securityGroupIds",
            "skipFinalBackup",
            "storageCapacity",
            "storageType",
            "subnetIds",
            "tags",
            *_CONFIGURATION,
        }
    )
    defaults: ClassVar[Values] = {"automaticBackupRetentionDays": 0, "dataCompressionType": "NONE", "storageType": "SSD"}
    computed = frozenset({"arn", "dnsName", "mountName", "networkInterfaceIds", "ownerId", "vpcId"})
    replace_on = frozenset(
        {"deploymentType", "fileSystemTypeVersion", "kmsKeyId", "securityGroupIds", "storageType", "subnetIds"}
    )
    unordered = frozenset({"securityGroupIds"})

    def diff(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
        """Compare as for every type; a smaller one is another one."""
        found = super().diff(old, new)
        before, after = old.get("storageCapacity"), new.get("storageCapacity")
        if not (isinstance(before, int) and isinstance(after, int) and after < before):
            return found
        return Difference(found.changed, (*found.replaces, "storageCapacity"), self._must_delete_first(old, new))

    def rules(self, inputs: Values) -> Iterable[Problem]:
        for key, only in (("deploymentType", "PERSISTENT_2"), ("storageType", "SSD")):
            if inputs.get(key) is None or known(inputs, key) not in (None, only):
                yield Problem(key, f"{inputs.get(key)!r}; the twin has {only} alone")
        for key in ("kmsKeyId", "securityGroupIds", "storageCapacity", "perUnitStorageThroughput"):
            if not inputs.get(key):
                yield Problem(key, "required: what AWS would choose here is not for this program")
        capacity = known(inputs, "storageCapacity")
        if capacity is not None and capacity != _SMALLEST_GIB and (capacity <= 0 or capacity % _STEP_GIB):
            yield Problem("storageCapacity", f"{capacity} GiB is neither {_SMALLEST_GIB} nor a multiple of {_STEP_GIB}")
        throughput = known(inputs, "perUnitStorageThroughput")
        if throughput is not None and throughput not in _THROUGHPUTS:
            yield Problem("perUnitStorageThroughput", f"{throughput} is not one of {', '.join(map(str, _THROUGHPUTS))}")
        days = known(inputs, "automaticBackupRetentionDays")
        if days is not None and not 0 <= days <= _MOST_BACKUP_DAYS:
            yield Problem("automaticBackupRetentionDays", f"{days} days is not within 0-{_MOST_BACKUP_DAYS}")
        window = known(inputs, "weeklyMaintenanceStartTime")
        if window is not None and not _MAINTENANCE.fullmatch(window):
            yield Problem("weeklyMaintenanceStartTime", f"{window!r} is not like 7:09:00 (day, 1 is Monday, and time)")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        where = "file system of FSx for Lustre"
        subnet = api.require(clients, "subnet", inputs["subnetIds"], where)
        keys.require_key(clients, inputs["kmsKeyId"], where)
        _check_groups(clients, inputs["securityGroupIds"], subnet["VpcId"], where)
        interface = clients("ec2").create_network_interface(
            SubnetId=inputs["subnetIds"], Groups=inputs["securityGroupIds"], Description="Created By Amazon FSx"
        )["NetworkInterface"]["NetworkInterfaceId"]
        made = clients("fsx").create_file_system(
            ClientRequestToken=uuid.uuid4().hex,
            FileSystemType="LUSTRE",
            StorageCapacity=inputs["storageCapacity"],
            StorageType=inputs["storageType"],
            SubnetIds=[inputs["subnetIds"]],
            SecurityGroupIds=inputs["securityGroupIds"],
            KmsKeyId=inputs["kmsKeyId"],
            LustreConfiguration={name: inputs[key] for key, name in _CONFIGURATION.items() if key in inputs},
            **({"FileSystemTypeVersion": inputs["fileSystemTypeVersion"]} if "fileSystemTypeVersion" in inputs else {}),
            **({"Tags": tags.to_list(inputs["tags"])} if inputs.get("tags") else {}),
        )["FileSystem"]
        id = made["FileSystemId"]
        computed = {
            "arn": made["ResourceARN"],
            "dnsName": made["DNSName"],
            # AWS makes up eight characters; clients mount by them.
            "mountName": uuid.uuid5(uuid.NAMESPACE_DNS, made["DNSName"]).hex[:8],
            "networkInterfaceIds": [interface],
            "ownerId": clients.account_id,
            "vpcId": subnet["VpcId"],
        }
        outputs = self.outputs(inputs, computed)
        records.put(clients, record_name(id), outputs)
        return id, outputs

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        record = records.get(clients, record_name(id))
        if record is None or find(clients, id) is None:
            return None
        seen = clients("fsx").list_tags_for_resource(ResourceARN=record["arn"]).get("Tags")
        return {**state, **record, **tags.observed(state, tags.from_list(seen))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        if new["storageCapacity"] < old["storageCapacity"]:
            raise HandlerError(
                f"file system {id}: it has {old['storageCapacity']} GiB and cannot become smaller "
                f"({new['storageCapacity']} GiB)"
            )
        tags.retag(old, new, clients("fsx").untag_resource, clients("fsx").tag_resource, ResourceARN=old["arn"])
        outputs = self.kept(new, old)
        records.put(clients, record_name(id), outputs)
        return outputs

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if find(clients, id) is not None:
            clients("fsx").delete_file_system(FileSystemId=id)
        for interface in state["networkInterfaceIds"]:
            _delete_interface(clients, interface)
        records.delete(clients, record_name(id))
        # They end with their file system.
        for name in records.below(clients, association_folder(id)):
            records.delete(clients, name)


def association_folder(file_system_id: str) -> str:
    """Return where the records of a file system's associations are kept."""
    return records.path("fsx", "associations", file_system_id)


def _check_groups(clients: Clients, group_ids: list[str], vpc_id: str, where: str) -> None:
    """FSx refuses groups of another VPC, and those in which its own servers could not talk to one another."""
    open_among_themselves = False
    for id in group_ids:
        group = api.require(clients, "security-group", id, where)
        if group["VpcId"] != vpc_id:
            raise HandlerError(f"{where}: security group {id} is in {group['VpcId']}, the subnet in {vpc_id}")
        inward, outward = (_lets_lustre_through(group[way], group_ids) for way in ("IpPermissions", "IpPermissionsEgress"))
        open_among_themselves |= inward and outward
    if not open_among_themselves:
        raise HandlerError(
            f"{where}: the security groups {', '.join(group_ids)} do not permit Lustre LNET network traffic on port "
            f"{_LUSTRE_PORT} among themselves (yet); make it depend on their rules"
        )


def _lets_lustre_through(permissions: list[dict[str, Any]], group_ids: list[str]) -> bool:
    return any(
        permission["IpProtocol"] == "-1" or permission.get("FromPort", 0) <= _LUSTRE_PORT <= permission.get("ToPort", 0)
        for permission in permissions
        if permission.get("IpRanges") or {pair["GroupId"] for pair in permission["UserIdGroupPairs"]} & set(group_ids)
    )


def _delete_interface(clients: Clients, id: str) -> None:
    filters = [{"Name": "network-interface-id", "Values": [id]}]
    if clients("ec2").describe_network_interfaces(Filters=filters)["NetworkInterfaces"]:
        clients("ec2").delete_network_interface(NetworkInterfaceId=id)
