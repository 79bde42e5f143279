"""Links between a Lustre file system and a bucket. moto has none: they are records of the twin, and nothing is imported."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import documents, records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Values, known
from twin.aws.base.lookup import or_none
from twin.aws.base.recorded import Recorded
from twin.aws.fsx import file_system
from twin.aws.s3.bucket import require_bucket

_REPOSITORY = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)")
_EVENTS = ("NEW", "CHANGED", "DELETED")
_MOST = 8
_ROLE = "AWSServiceRoleForFSxS3Access_fs-"


class DataRepositoryAssociation(Recorded):
    """A folder of the file system that follows a prefix of a bucket."""

    token = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
    inputs = frozenset(
        {
            "batchImportMetaDataOnCreate",
            "dataRepositoryPath",
            "deleteDataInFilesystem",
            "fileSystemId",
            "fileSystemPath",
            "importedFileChunkSize",
            "s3",
            "tags",
        }
    )
    defaults: ClassVar[Values] = {
        "batchImportMetaDataOnCreate": False,
        "deleteDataInFilesystem": False,
        "importedFileChunkSize": 1024,
    }
    computed = frozenset({"arn", "associationId"})
    replace_on = frozenset({"batchImportMetaDataOnCreate", "dataRepositoryPath", "fileSystemId", "fileSystemPath"})
    delete_before_replace = True

    def rules(self, inputs: Values) -> Iterable[Problem]:
        path = known(inputs, "fileSystemPath")
        if path is not None and (not path.startswith("/") or (len(path) > 1 and path.endswith("/"))):
            yield Problem("fileSystemPath", f"{path!r} is not like /releases")
        repository = known(inputs, "dataRepositoryPath")
        if repository is not None and UNKNOWN not in repository and not _REPOSITORY.fullmatch(repository):
            yield Problem("dataRepositoryPath", f"{repository!r} is not like s3://bucket/prefix/")
        for policy in ("autoImportPolicy", "autoExportPolicy"):
            configured = known(inputs, "s3") or {}
            wrong = [event for event in (configured.get(policy) or {}).get("events", []) if event not in _EVENTS]
            if wrong:
                yield Problem(f"s3.{policy}.events", f"{', '.join(wrong)}: not among {', '.join(_EVENTS)}")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._check(clients, inputs)
        id = f"dra-{uuid.uuid4().hex[:17]}"
        arn = clients.arn("fsx", f"association/{inputs['fileSystemId']}/{id}")
        outputs = self.outputs(inputs, {"arn": arn, "associationId": id})
        records.put(clients, self.record_name(outputs), outputs)
        return id, outputs

    def record_name(self, values: Values) -> str:
        return f"{file_system.association_folder(values['fileSystemId'])}/{values['associationId']}"

    @staticmethod
    def _check(clients: Clients, inputs: Values) -> None:
        file_system_id, repository = inputs["fileSystemId"], inputs["dataRepositoryPath"]
        where = f"association of {repository}"
        system = records.get(clients, file_system.record_name(file_system_id))
        if system is None or file_system.find(clients, file_system_id) is None:
            raise HandlerError(f"{where}: file system {file_system_id} does not exist")
        if system["automaticBackupRetentionDays"]:
            raise HandlerError(
                f"{where}: file system {file_system_id} has automatic backups, which FSx does not make of one that is "
                "linked to a bucket; set automaticBackupRetentionDays to 0"
            )
        match = _REPOSITORY.fullmatch(repository)
        bucket = match[1] if match is not None else ""
        require_bucket(clients, bucket, where)
        _check_key(clients, bucket, where)
        others = records.below(clients, file_system.association_folder(file_system_id)).values()
        if len(others) >= _MOST:
            raise HandlerError(f"{where}: file system {file_system_id} has {len(others)} associations; at most {_MOST}")
        for key in ("fileSystemPath", "dataRepositoryPath"):
            taken = [other[key] for other in others if _overlap(other[key], inputs[key])]
            if taken:
                raise HandlerError(f"{where}: {key} {inputs[key]} overlaps {taken[0]} of another association")


def _overlap(one: str, other: str) -> bool:
    first, second = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return second.startswith(first)


def _check_key(clients: Clients, bucket: str, where: str) -> None:
    """Without the right to the bucket's key the association is made, and ends as MISCONFIGURED."""
    answer = or_none(clients("s3").get_bucket_encryption, Bucket=bucket)
    rules = answer["ServerSideEncryptionConfiguration"]["Rules"] if answer else []
    keys = [rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID") for rule in rules]
    for key in filter(None, keys):
        policy = clients("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"]
        if not any(_lets_fsx_decrypt(statement) for statement in documents.statements(documents.parse(policy))):
            raise HandlerError(
                f"{where}: the policy of KMS key {key} does not let {_ROLE}* decrypt; the association would be MISCONFIGURED"
            )


def _lets_fsx_decrypt(statement: dict[str, Any]) -> bool:
    actions = set(documents.as_list(statement.get("Action")))
    role = str(statement.get("Principal")) + str(statement.get("Condition"))
    return statement.get("Effect") == "Allow" and bool(actions & {"kms:Decrypt", "kms:*"}) and _ROLE in role
