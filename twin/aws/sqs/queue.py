"""Queues and their policies."""

from __future__ import annotations

import json
from typing import ClassVar

from twin.aws.base import documents, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.iam import trust
from twin.aws.kms import keys

# Inputs, with the service's attributes.
_NUMBERS: dict[str, str] = {
    "delaySeconds": "DelaySeconds",
    "kmsDataKeyReusePeriodSeconds": "KmsDataKeyReusePeriodSeconds",
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "receiveWaitTimeSeconds": "ReceiveMessageWaitTimeSeconds",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
}


def find_queue(clients: Clients, url: str) -> dict[str, str] | None:
    """Return all attributes of a queue, or None if it does not exist."""
    answer = or_none(clients("sqs").get_queue_attributes, QueueUrl=url, AttributeNames=["All"])
    return None if answer is None else dict(answer["Attributes"])


def url_of(clients: Clients, arn: str) -> str | None:
    """Return the URL of the queue with this ARN, or None if this account and region have none."""
    name = arn.rpartition(":")[2]
    answer = or_none(clients("sqs").get_queue_url, QueueName=name)
    return answer["QueueUrl"] if answer is not None and arn == clients.arn("sqs", name) else None


def set_attributes(clients: Clients, url: str, attributes: dict[str, str]) -> None:
    """Set these attributes and keep the others: moto loses a queue's policy with every call that does not repeat it."""
    policy = (find_queue(clients, url) or {}).get("Policy")
    kept = {"Policy": policy} if policy and "Policy" not in attributes else {}
    clients("sqs").set_queue_attributes(QueueUrl=url, Attributes={**kept, **attributes})


class Queue(Handler):
    token = "aws:sqs/queue:Queue"
    inputs = frozenset({"kmsMasterKeyId", "name", "redrivePolicy", "sqsManagedSseEnabled", "tags", *_NUMBERS})
    defaults: ClassVar[Values] = {
        "delaySeconds": 0,
        "fifoQueue": False,
        "kmsDataKeyReusePeriodSeconds": 300,
        "maxMessageSize": 262_144,
        "messageRetentionSeconds": 345_600,
        "receiveWaitTimeSeconds": 0,
        "visibilityTimeoutSeconds": 30,
    }
    computed = frozenset({"arn", "url", "sqsManagedSseEnabled"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        sqs, name = clients("sqs"), inputs["name"]
        # CreateQueue returns an existing queue with the same attributes; the provider does not adopt it either.
        if or_none(sqs.get_queue_url, QueueName=name) is not None:
            raise HandlerError(f"queue {name} already exists")
        attributes = self._attributes(clients, self._with_defaults(inputs))
        pairs = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        url = sqs.create_queue(QueueName=name, Attributes=attributes, **pairs)["QueueUrl"]
        return url, self._outputs(clients, url, inputs)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = find_queue(clients, id)
        if found is None:
            return None
        numbers = {key: int(found[name]) for key, name in _NUMBERS.items() if key in state and name in found}
        seen: Values = {**state, **numbers}
        for key, name in (("kmsMasterKeyId", "KmsMasterKeyId"), ("redrivePolicy", "RedrivePolicy")):
            seen.pop(key, None)
            if found.get(name):
                seen[key] = found[name]
        if "redrivePolicy" in seen and json.loads(seen["redrivePolicy"]) == json.loads(state.get("redrivePolicy") or "{}"):
            seen["redrivePolicy"] = state["redrivePolicy"]
        return {**seen, **tags.observed(state, clients("sqs").list_queue_tags(QueueUrl=id).get("Tags", {}))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        sqs = clients("sqs")
        changed = self._attributes(clients, self._with_defaults(new))
        # An empty string removes an attribute.
        removed = {"RedrivePolicy": "" if "redrivePolicy" in old and "redrivePolicy" not in new else None}
        removed["KmsMasterKeyId"] = "" if "kmsMasterKeyId" in old and "kmsMasterKeyId" not in new else None
        set_attributes(clients, id, {**{key: value for key, value in removed.items() if value is not None}, **changed})
        tags.retag(old, new, sqs.untag_queue, sqs.tag_queue, dict, QueueUrl=id)
        return self._outputs(clients, id, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("sqs").delete_queue(QueueUrl=id)

    def _with_defaults(self, inputs: Values) -> Values:
        """Return the attributes as the provider sends them, with its own defaults; some differ from SQS's defaults."""
        return {**{key: self.defaults[key] for key in _NUMBERS}, **inputs}

    def _outputs(self, clients: Clients, url: str, inputs: Values) -> Values:
        managed = inputs.get("sqsManagedSseEnabled", "kmsMasterKeyId" not in inputs)
        arn = clients.arn("sqs", inputs["name"])
        return self.outputs(inputs, {"arn": arn, "url": url, "sqsManagedSseEnabled": managed})

    def _attributes(self, clients: Clients, inputs: Values) -> dict[str, str]:
        """Return the inputs' attributes. Raises HandlerError if a key is not usable."""
        where = f"queue {inputs['name']}"
        attributes = {name: str(inputs[key]) for key, name in _NUMBERS.items() if key in inputs}
        if "kmsMasterKeyId" in inputs:
            keys.require_key(clients, inputs["kmsMasterKeyId"], where)
            attributes["KmsMasterKeyId"] = inputs["kmsMasterKeyId"]
        elif "sqsManagedSseEnabled" in inputs:
            attributes["SqsManagedSseEnabled"] = str(inputs["sqsManagedSseEnabled"]).lower()
        if "redrivePolicy" in inputs:
            attributes["RedrivePolicy"] = inputs["redrivePolicy"]
        return attributes


class QueuePolicy(Handler):
    """A queue's policy; its id is the queue's URL."""

    token = "aws:sqs/queuePolicy:QueuePolicy"
    inputs = frozenset({"policy", "queueUrl"})
    replace_on = frozenset({"queueUrl"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._put(clients, inputs)
        return inputs["queueUrl"], self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        text = (find_queue(clients, id) or {}).get("Policy")
        if not text:
            return None
        return {**state, "policy": state["policy"] if documents.same(text, state["policy"]) else text}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            set_attributes(clients, id, {"Policy": ""})

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        trust.check_principals(clients, documents.parse(inputs["policy"]))
        set_attributes(clients, inputs["queueUrl"], {"Policy": inputs["policy"]})
