"""KMS keys and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twin.aws.base import documents, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.iam import trust
from twin.aws.kms import deployer


def find_key(clients: Clients, key_id: str) -> dict[str, Any] | None:
    """Return the metadata of a key by id, ARN or alias; None if it does not exist or is pending deletion."""
    answer = or_none(clients("kms").describe_key, KeyId=key_id)
    if answer is None or answer["KeyMetadata"]["KeyState"] == "PendingDeletion":
        return None
    metadata: dict[str, Any] = answer["KeyMetadata"]
    return metadata


def require_key(clients: Clients, key_id: str, wanted_by: str) -> dict[str, Any]:
    """Return the key's metadata. Raises HandlerError if the key is not usable."""
    found = find_key(clients, key_id)
    if found is None:
        raise HandlerError(f"{wanted_by}: KMS key {key_id} does not exist or is pending deletion")
    return found


class Key(Handler):
    token = "aws:kms/key:Key"
    inputs = frozenset(
        {"deletionWindowInDays", "description", "enableKeyRotation", "policy", "rotationPeriodInDays", "tags"}
    )
    defaults: ClassVar[Values] = {"enableKeyRotation": False, "keyUsage": "ENCRYPT_DECRYPT", "isEnabled": True}
    computed = frozenset({"arn", "keyId", "policy"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        kms = clients("kms")
        if "policy" in inputs:
            trust.check_principals(clients, documents.parse(inputs["policy"]))
        policy = {"Policy": inputs["policy"]} if "policy" in inputs else {}
        key = kms.create_key(Description=inputs.get("description", ""), Tags=_pairs(inputs.get("tags", {})), **policy)[
            "KeyMetadata"
        ]
        if inputs.get("enableKeyRotation"):
            try:
                deployer.require(clients, "EnableKeyRotation", key)
            except HandlerError as error:
                raise HalfCreated(key["KeyId"], self.outputs(inputs, {}), str(error)) from error
        self._rotate(clients, key["KeyId"], inputs)
        text = inputs.get("policy") or kms.get_key_policy(KeyId=key["KeyId"], PolicyName="default")["Policy"]
        return key["KeyId"], self.outputs(inputs, {"arn": key["Arn"], "keyId": key["KeyId"], "policy": text})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        key = find_key(clients, id)
        if key is None:
            return None
        kms = clients("kms")
        policy = kms.get_key_policy(KeyId=id, PolicyName="default")["Policy"]
        same = documents.same(policy, state.get("policy") or policy)
        seen = tags.from_list(kms.list_resource_tags(KeyId=id).get("Tags"))
        return {
            **state,
            "description": key.get("Description", ""),
            "enableKeyRotation": kms.get_key_rotation_status(KeyId=id)["KeyRotationEnabled"],
            "policy": state.get("policy", policy) if same else policy,
            "arn": key["Arn"],
            "keyId": key["KeyId"],
            **tags.observed(state, seen),
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        kms = clients("kms")
        old = {**(self.read(clients, id, old) or {}), **old}  # a half-created key has only its inputs
        if new.get("policy", old["policy"]) != old["policy"]:
            trust.check_principals(clients, documents.parse(new["policy"]))
            kms.put_key_policy(KeyId=id, PolicyName="default", Policy=new["policy"])
        kms.update_key_description(KeyId=id, Description=new.get("description", ""))
        if any(old.get(name) != new.get(name) for name in ("enableKeyRotation", "rotationPeriodInDays")):
            self._rotate(clients, id, new)
        tags.retag(old, new, kms.untag_resource, kms.tag_resource, _pairs, KeyId=id)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if find_key(clients, id) is not None:
            clients("kms").schedule_key_deletion(KeyId=id, PendingWindowInDays=state.get("deletionWindowInDays") or 30)

    @staticmethod
    def _rotate(clients: Clients, id: str, inputs: Values) -> None:
        if inputs.get("enableKeyRotation"):
            period = {"RotationPeriodInDays": inputs["rotationPeriodInDays"]} if "rotationPeriodInDays" in inputs else {}
            clients("kms").enable_key_rotation(KeyId=id, **period)
        else:
            clients("kms").disable_key_rotation(KeyId=id)


class Alias(Handler):
    token = "aws:kms/alias:Alias"
    inputs = frozenset({"name", "targetKeyId"})
    computed = frozenset({"arn", "targetKeyArn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def physical_name(self, autoname: str) -> str:
        return f"alias/{autoname}"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        key = require_key(clients, inputs["targetKeyId"], f"alias {inputs['name']}")
        deployer.require(clients, "CreateAlias", key, alias=inputs["name"])
        clients("kms").create_alias(AliasName=inputs["name"], TargetKeyId=inputs["targetKeyId"])
        return inputs["name"], self.outputs(inputs, self._computed(clients, inputs["name"], key))

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        key = find_key(clients, id)
        if key is None:
            return None
        same = state["targetKeyId"] in (key["KeyId"], key["Arn"])
        target = state["targetKeyId"] if same else key["KeyId"]
        return {**state, **self._computed(clients, id, key), "targetKeyId": target}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        key = require_key(clients, new["targetKeyId"], f"alias {id}")
        clients("kms").update_alias(AliasName=id, TargetKeyId=new["targetKeyId"])
        return self.outputs(new, self._computed(clients, id, key))

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("kms").delete_alias(AliasName=id)

    @staticmethod
    def _computed(clients: Clients, name: str, key: dict[str, Any]) -> Values:
        return {"arn": clients.arn("kms", name), "targetKeyArn": key["Arn"]}


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in the spelling that only KMS uses."""
    return [{"TagKey": key, "TagValue": value} for key, value in sorted(values.items())]
