"""A bucket's configurations, each a resource: versioning, encryption, public access, ownership, lifecycle, policy."""

from __future__ import annotations

from typing import Any, ClassVar

from twin.aws.base import documents, wire
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.iam import trust
from twin.aws.kms import keys
from twin.aws.s3.bucket import require_bucket


class _BucketSetting(Handler):
    """One configuration of one bucket, always written as a whole; its id is the bucket's name."""

    replace_on = frozenset({"bucket"})
    operation: ClassVar[str]
    """The suffix of S3's operations: `get_…`, `put_…` and `delete_…`."""
    member: ClassVar[str]
    """The parameter of `put_…`, and the key in the answer of `get_…`, with the configuration."""

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        require_bucket(clients, inputs["bucket"], self.token)
        self._put(clients, inputs)
        return inputs["bucket"], self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(getattr(clients("s3"), f"get_{self.operation}"), Bucket=id)
        if answer is None:
            return None
        configuration = answer.get(self.member, answer)
        if self.is_same(self.configuration(clients, state), configuration):
            return dict(state)
        return {**state, **self.observed(configuration)}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            getattr(clients("s3"), f"delete_{self.operation}")(Bucket=id)

    def check_references(self, clients: Clients, inputs: Values) -> None:
        """Refuse references to resources that do not exist."""

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        """Return the configuration in S3's spelling."""
        raise NotImplementedError

    def is_same(self, declared: Any, configuration: Any) -> bool:
        """Return whether the declared configuration equals S3's."""
        return bool(declared == configuration)

    def observed(self, configuration: Any) -> Values:
        """Return the inputs that would give a configuration."""
        return _camel(configuration)

    def _put(self, clients: Clients, inputs: Values) -> None:
        self.check_references(clients, inputs)
        parameters = {self.member: self.configuration(clients, inputs)}
        getattr(clients("s3"), f"put_{self.operation}")(Bucket=inputs["bucket"], **parameters)

    def _converted(self, clients: Clients, value: Values, renames: wire.Renames) -> Any:
        model = clients("s3").meta.service_model
        name = "".join(part.capitalize() for part in self.operation.split("_"))
        return wire.to_request(value, model.operation_model(f"Put{name}").input_shape.members[self.member], renames)


class BucketVersioning(_BucketSetting):
    token = "aws:s3/bucketVersioning:BucketVersioning"
    inputs = frozenset({"bucket", "versioningConfiguration"})
    operation, member = "bucket_versioning", "VersioningConfiguration"

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        return {"Status": inputs["versioningConfiguration"]["status"]}

    def observed(self, configuration: Any) -> Values:
        return {"versioningConfiguration": {"status": configuration.get("Status", "Disabled")}}

    def is_same(self, declared: Any, configuration: Any) -> bool:
        return bool(declared["Status"] == configuration.get("Status", "Disabled"))

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        """Suspend versioning, as the official provider does, because S3 cannot delete it."""
        with gone_is_fine():
            clients("s3").put_bucket_versioning(Bucket=id, VersioningConfiguration={"Status": "Suspended"})


class BucketEncryption(_BucketSetting):
    token = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    inputs = frozenset({"bucket", "rules"})
    operation, member = "bucket_encryption", "ServerSideEncryptionConfiguration"

    def check_references(self, clients: Clients, inputs: Values) -> None:
        for rule in inputs["rules"]:
            key = rule["applyServerSideEncryptionByDefault"].get("kmsMasterKeyId")
            if key:
                keys.require_key(clients, key, f"encryption of bucket {inputs['bucket']}")

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        renames = {
            "rules.applyServerSideEncryptionByDefault.sseAlgorithm": "SSEAlgorithm",
            "rules.applyServerSideEncryptionByDefault.kmsMasterKeyId": "KMSMasterKeyID",
        }
        rules = [dict(rule) for rule in inputs["rules"]]
        for rule in rules:
            if "blockedEncryptionTypes" in rule:
                rule["blockedEncryptionTypes"] = {"encryptionType": rule["blockedEncryptionTypes"]}
        return self._converted(clients, {"rules": rules}, renames)

    def observed(self, configuration: Any) -> Values:
        rules = []
        for rule in configuration["Rules"]:
            default = rule["ApplyServerSideEncryptionByDefault"]
            names = {"sseAlgorithm": "SSEAlgorithm", "kmsMasterKeyId": "KMSMasterKeyID"}
            declared = {key: default[name] for key, name in names.items() if name in default}
            entry = {"applyServerSideEncryptionByDefault": declared}
            entry |= {"bucketKeyEnabled": rule["BucketKeyEnabled"]} if "BucketKeyEnabled" in rule else {}
            blocked = rule.get("BlockedEncryptionTypes", {}).get("EncryptionType")
            rules.append({**entry, **({"blockedEncryptionTypes": blocked} if blocked else {})})
        return {"rules": rules}


class BucketPublicAccessBlock(_BucketSetting):
    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    _FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    inputs = frozenset({"bucket", *_FLAGS})
    defaults: ClassVar[Values] = dict.fromkeys(_FLAGS, False)
    operation, member = "public_access_block", "PublicAccessBlockConfiguration"

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        return self._converted(clients, {key: inputs.get(key, False) for key in self._FLAGS}, {})


class BucketOwnershipControls(_BucketSetting):
    token = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
    inputs = frozenset({"bucket", "rule"})
    operation, member = "bucket_ownership_controls", "OwnershipControls"

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        return {"Rules": [{"ObjectOwnership": inputs["rule"]["objectOwnership"]}]}

    def observed(self, configuration: Any) -> Values:
        return {"rule": {"objectOwnership": configuration["Rules"][0]["ObjectOwnership"]}}


class BucketLifecycle(_BucketSetting):
    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    inputs = frozenset({"bucket", "rules"})
    operation, member = "bucket_lifecycle_configuration", "LifecycleConfiguration"

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        rules = [{**rule, "filter": rule.get("filter") or {"prefix": ""}} for rule in inputs["rules"]]
        return self._converted(clients, {"rules": rules}, {"rules.id": "ID"})

    def is_same(self, declared: Any, configuration: Any) -> bool:
        return _comparable(declared["Rules"]) == _comparable(configuration["Rules"])

    def observed(self, configuration: Any) -> Values:
        return {"rules": _camel(configuration["Rules"])}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("s3").delete_bucket_lifecycle(Bucket=id)


def _comparable(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        ({key: value for key, value in rule.items() if (key, value) != ("Filter", {"Prefix": ""})} for rule in rules),
        key=lambda rule: str(rule.get("ID")),
    )


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {("id" if key == "ID" else key[0].lower() + key[1:]): _camel(item) for key, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value


class BucketLogging(_BucketSetting):
    token = "aws:s3/bucketLogging:BucketLogging"
    inputs = frozenset({"bucket", "targetBucket", "targetPrefix", "targetObjectKeyFormat"})
    operation, member = "bucket_logging", "BucketLoggingStatus"

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        enabled = {key: inputs[key] for key in ("targetBucket", "targetPrefix", "targetObjectKeyFormat") if key in inputs}
        return self._converted(clients, {"loggingEnabled": enabled}, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        enabled = clients("s3").get_bucket_logging(Bucket=id).get("LoggingEnabled")
        return {**state, **_camel(enabled)} if enabled is not None else None

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("s3").put_bucket_logging(Bucket=id, BucketLoggingStatus={})


class BucketPolicy(_BucketSetting):
    token = "aws:s3/bucketPolicy:BucketPolicy"
    inputs = frozenset({"bucket", "policy"})
    operation, member = "bucket_policy", "Policy"

    def check_references(self, clients: Clients, inputs: Values) -> None:
        """Refuse other buckets' resources (https://github.com/hashicorp/terraform/issues/23570) and unknown principals."""
        bucket, document = inputs["bucket"], documents.parse(inputs["policy"])
        own = f"arn:{clients.partition}:s3:::{bucket}"
        for statement in documents.statements(document):
            for resource in documents.as_list(statement.get("Resource")):
                if resource != own and not resource.startswith(f"{own}/"):
                    raise HandlerError(f"bucket policy of {bucket}: Policy has invalid resource: {resource}")
        trust.check_principals(clients, document)

    def configuration(self, clients: Clients, inputs: Values) -> Any:
        return inputs["policy"]

    def is_same(self, declared: Any, configuration: Any) -> bool:
        return documents.same(declared, configuration)

    def observed(self, configuration: Any) -> Values:
        return {"policy": configuration}
