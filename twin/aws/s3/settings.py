"""Handle what resources of their own set on a bucket: versioning, encryption, public access, ownership, policy."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import documents
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Handler, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.iam import trust
from twin.aws.kms import keys
from twin.aws.s3.bucket import require_bucket

_POLICY_LIMIT = 20480  # bytes


class _BucketSetting(Handler):
    """One configuration of one bucket; its id is the bucket's name."""

    replace_on = frozenset({"bucket"})
    removal: ClassVar[str]
    """The operation that takes it away."""

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        require_bucket(clients, inputs["bucket"], self.token)
        self.put(clients, inputs)
        return inputs["bucket"], self.outputs(inputs, {})

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self.put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            getattr(clients("s3"), self.removal)(Bucket=id)

    def put(self, clients: Clients, inputs: Values) -> None:
        """Write the whole configuration."""
        raise NotImplementedError


class BucketVersioning(_BucketSetting):
    token = "aws:s3/bucketVersioning:BucketVersioning"
    inputs = frozenset({"bucket", "versioningConfiguration"})

    def put(self, clients: Clients, inputs: Values) -> None:
        status = inputs["versioningConfiguration"]["status"]
        if status != "Disabled":
            clients("s3").put_bucket_versioning(Bucket=inputs["bucket"], VersioningConfiguration={"Status": status})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        configuration = known(inputs, "versioningConfiguration") or {}
        if configuration.get("status") not in ("Enabled", "Suspended", "Disabled", UNKNOWN):
            yield Problem(
                "versioningConfiguration.status",
                f"{configuration.get('status')!r} is not one of Enabled, Suspended, Disabled",
            )
        if "mfaDelete" in configuration:
            yield Problem("versioningConfiguration.mfaDelete", "the twin has no MFA delete")

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_bucket_versioning, Bucket=id)
        if answer is None:
            return None
        return {**state, "versioningConfiguration": {"status": answer.get("Status", "Disabled")}}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("s3").put_bucket_versioning(Bucket=id, VersioningConfiguration={"Status": "Suspended"})


class BucketEncryption(_BucketSetting):
    removal = "delete_bucket_encryption"
    token = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    inputs = frozenset({"bucket", "rules"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        for index, rule in enumerate(known(inputs, "rules") or ()):
            default = rule.get("applyServerSideEncryptionByDefault") or {}
            if default.get("kmsMasterKeyId") and default.get("sseAlgorithm") not in ("aws:kms", "aws:kms:dsse", UNKNOWN):
                where = f"rules[{index}].applyServerSideEncryptionByDefault.kmsMasterKeyId"
                yield Problem(where, f"a key is of no use with {default.get('sseAlgorithm')!r}")

    def put(self, clients: Clients, inputs: Values) -> None:
        request = []
        for rule in inputs["rules"]:
            default = rule["applyServerSideEncryptionByDefault"]
            by_default = {"SSEAlgorithm": default["sseAlgorithm"]}
            if "kmsMasterKeyId" in default:
                keys.require_key(clients, default["kmsMasterKeyId"], f"encryption of bucket {inputs['bucket']}")
                by_default["KMSMasterKeyID"] = default["kmsMasterKeyId"]
            entry: dict[str, Any] = {"ApplyServerSideEncryptionByDefault": by_default}
            if "bucketKeyEnabled" in rule:
                entry["BucketKeyEnabled"] = rule["bucketKeyEnabled"]
            if "blockedEncryptionTypes" in rule:
                entry["BlockedEncryptionTypes"] = {"EncryptionType": rule["blockedEncryptionTypes"]}
            request.append(entry)
        clients("s3").put_bucket_encryption(Bucket=inputs["bucket"], ServerSideEncryptionConfiguration={"Rules": request})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_bucket_encryption, Bucket=id)
        if answer is None:
            return None
        seen = []
        for rule in answer["ServerSideEncryptionConfiguration"]["Rules"]:
            found = rule["ApplyServerSideEncryptionByDefault"]
            default = {"sseAlgorithm": found["SSEAlgorithm"]}
            if "KMSMasterKeyID" in found:
                default["kmsMasterKeyId"] = found["KMSMasterKeyID"]
            entry = {"applyServerSideEncryptionByDefault": default}
            if "BucketKeyEnabled" in rule:
                entry["bucketKeyEnabled"] = rule["BucketKeyEnabled"]
            if "BlockedEncryptionTypes" in rule:
                entry["blockedEncryptionTypes"] = rule["BlockedEncryptionTypes"]["EncryptionType"]
            seen.append(entry)
        return {**state, "rules": seen}


class BucketPublicAccessBlock(_BucketSetting):
    removal = "delete_public_access_block"
    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    _FLAGS: ClassVar[dict[str, str]] = {
        "blockPublicAcls": "BlockPublicAcls",
        "blockPublicPolicy": "BlockPublicPolicy",
        "ignorePublicAcls": "IgnorePublicAcls",
        "restrictPublicBuckets": "RestrictPublicBuckets",
    }
    inputs = frozenset({"bucket", *_FLAGS})
    defaults: ClassVar[Values] = dict.fromkeys(_FLAGS, False)

    def put(self, clients: Clients, inputs: Values) -> None:
        flags = {name: inputs.get(key, False) for key, name in self._FLAGS.items()}
        clients("s3").put_public_access_block(Bucket=inputs["bucket"], PublicAccessBlockConfiguration=flags)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_public_access_block, Bucket=id)
        if answer is None:
            return None
        found = answer["PublicAccessBlockConfiguration"]
        return {**state, **{key: found[name] for key, name in self._FLAGS.items()}}


class BucketOwnershipControls(_BucketSetting):
    removal = "delete_bucket_ownership_controls"
    token = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
    inputs = frozenset({"bucket", "rule"})

    def put(self, clients: Clients, inputs: Values) -> None:
        clients("s3").put_bucket_ownership_controls(
            Bucket=inputs["bucket"],
            OwnershipControls={"Rules": [{"ObjectOwnership": inputs["rule"]["objectOwnership"]}]},
        )

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_bucket_ownership_controls, Bucket=id)
        if answer is None:
            return None
        found = answer["OwnershipControls"]["Rules"][0]["ObjectOwnership"]
        return {**state, "rule": {"objectOwnership": found}}


class BucketLogging(_BucketSetting):
    token = "aws:s3/bucketLogging:BucketLogging"
    inputs = frozenset({"bucket", "targetBucket", "targetPrefix", "targetObjectKeyFormat"})

    def put(self, clients: Clients, inputs: Values) -> None:
        target = inputs["targetBucket"]
        # S3 takes it and delivers nothing:
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
        answer = or_none(clients("s3").get_bucket_encryption, Bucket=target)
        for rule in answer["ServerSideEncryptionConfiguration"]["Rules"] if answer else ():
            if rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] != "AES256":
                raise HandlerError(
                    f"access log of {inputs['bucket']}: {target} is encrypted by KMS, where S3 delivers no log"
                )
        enabled = {"TargetBucket": target, "TargetPrefix": inputs["targetPrefix"]}
        if "targetObjectKeyFormat" in inputs:
            source = inputs["targetObjectKeyFormat"]["partitionedPrefix"]["partitionDateSource"]
            enabled["TargetObjectKeyFormat"] = {"PartitionedPrefix": {"PartitionDateSource": source}}
        clients("s3").put_bucket_logging(Bucket=inputs["bucket"], BucketLoggingStatus={"LoggingEnabled": enabled})

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("s3").put_bucket_logging(Bucket=id, BucketLoggingStatus={})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        enabled = clients("s3").get_bucket_logging(Bucket=id).get("LoggingEnabled")
        if enabled is None:
            return None
        return {**state, "targetBucket": enabled["TargetBucket"], "targetPrefix": enabled.get("TargetPrefix", "")}


class BucketPolicy(_BucketSetting):
    removal = "delete_bucket_policy"
    token = "aws:s3/bucketPolicy:BucketPolicy"
    inputs = frozenset({"bucket", "policy"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        return documents.policy_problems(inputs, "policy", limit=_POLICY_LIMIT, resource=True, principal=True)

    def put(self, clients: Clients, inputs: Values) -> None:
        bucket, document = inputs["bucket"], documents.parse(inputs["policy"])
        own = f"arn:{clients.partition}:s3:::{bucket}"
        for statement in documents.statements(document):
            for resource in documents.as_list(statement.get("Resource")):
                if resource != own and not resource.startswith(f"{own}/"):
                    raise HandlerError(f"bucket policy of {bucket}: resource {resource} is not in this bucket")
            principal = statement.get("Principal")
            for value in documents.as_list(principal.get("AWS")) if isinstance(principal, dict) else ():
                trust.check_aws_principal(clients, value, f"bucket policy of {bucket}")
            if _is_public(statement) and self._blocks_public_policies(clients, bucket):
                raise HandlerError(
                    f"bucket policy of {bucket}: it allows access to everyone, and the bucket blocks public policies"
                )
        clients("s3").put_bucket_policy(Bucket=bucket, Policy=inputs["policy"])

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_bucket_policy, Bucket=id)
        if answer is None:
            return None
        same = json.loads(answer["Policy"]) == json.loads(state["policy"])
        return {**state, "policy": state["policy"] if same else answer["Policy"]}

    @staticmethod
    def _blocks_public_policies(clients: Clients, bucket: str) -> bool:
        answer = or_none(clients("s3").get_public_access_block, Bucket=bucket)
        return bool(answer and answer["PublicAccessBlockConfiguration"]["BlockPublicPolicy"])


def _is_public(statement: dict[str, Any]) -> bool:
    principal = statement.get("Principal")
    everyone = principal == "*" or (isinstance(principal, dict) and "*" in documents.as_list(principal.get("AWS")))
    return statement.get("Effect") == "Allow" and everyone and not statement.get("Condition")
