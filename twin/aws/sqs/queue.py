"""Queues."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import documents, records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Handler, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.kms import keys

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
# Input, the attribute of the service, and the range that SQS documents.
_NUMBERS: dict[str, tuple[str, int, int]] = {
    "delaySeconds": ("DelaySeconds", 0, 900),
    "kmsDataKeyReusePeriodSeconds": ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
    "maxMessageSize": ("MaximumMessageSize", 1024, 1_048_576),
    "messageRetentionSeconds": ("MessageRetentionPeriod", 60, 1_209_600),
    "receiveWaitTimeSeconds": ("ReceiveMessageWaitTimeSeconds", 0, 20),
    "visibilityTimeoutSeconds": ("VisibilityTimeout", 0, 43_200),
}
_REDRIVE_KEYS = {"deadLetterTargetArn", "maxReceiveCount"}
_MOST_RECEIVES = 1000


def find_queue(clients: Clients, url: str) -> dict[str, str] | None:
    """Return all attributes of a queue, None when it does not exist."""
    answer = or_none(clients("sqs").get_queue_attributes, QueueUrl=url, AttributeNames=["All"])
    return None if answer is None else dict(answer["Attributes"])


def require_queue(clients: Clients, url: str, wanted_by: str) -> dict[str, str]:
    """Return the attributes of a queue; HandlerError when it does not exist."""
    found = find_queue(clients, url)
    if found is None:
        raise HandlerError(f"{wanted_by}: queue {url} does not exist")
    return found


def url_of(clients: Clients, arn: str) -> str | None:
    """Return the URL of the queue with this ARN, None when there is none in this account and region."""
    name = arn.rpartition(":")[2]
    answer = or_none(clients("sqs").get_queue_url, QueueName=name)
    return answer["QueueUrl"] if answer is not None and arn == clients.arn("sqs", name) else None


def set_attributes(clients: Clients, url: str, attributes: dict[str, str]) -> None:
    """Set these attributes and leave the others: moto forgets a queue's policy with every call that does not repeat it."""
    policy = (find_queue(clients, url) or {}).get("Policy")
    kept = {"Policy": policy} if policy and "Policy" not in attributes else {}
    clients("sqs").set_queue_attributes(QueueUrl=url, Attributes={**kept, **attributes})


def redrive_allow_policy(clients: Clients, url: str) -> str | None:
    """Return which queues may send their dead letters here; moto keeps no such attribute."""
    record = records.get(clients, _allow_record(url))
    return None if record is None else str(record["policy"])


def set_redrive_allow_policy(clients: Clients, url: str, policy: str | None) -> None:
    """Set which queues may send their dead letters here; None lets all do it."""
    if policy is None:
        records.delete(clients, _allow_record(url))
    else:
        records.put(clients, _allow_record(url), {"policy": policy})


def _allow_record(url: str) -> str:
    return records.path("sqs", "redrive-allow", url.rpartition("/")[2])


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

    def rules(self, inputs: Values) -> Iterable[Problem]:
        name = known(inputs, "name")
        if name is not None and not _NAME.fullmatch(name):
            yield Problem("name", f"{name!r}: 1-80 letters, digits, hyphens and underscores (the twin has no FIFO queues)")
        for key, (_, low, high) in _NUMBERS.items():
            value = known(inputs, key)
            if value is not None and not low <= value <= high:
                yield Problem(key, f"{value} is not within {low}-{high}")
        if known(inputs, "kmsMasterKeyId") and known(inputs, "sqsManagedSseEnabled"):
            yield Problem("sqsManagedSseEnabled", "a queue is encrypted with its own key or with that of SQS, not with both")
        yield from _redrive_problems(inputs)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        sqs, name = clients("sqs"), inputs["name"]
        # CreateQueue of an existing queue with the same attributes returns that one; the provider does not adopt it either.
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
        numbers = {key: int(found[name]) for key, (name, _, _) in _NUMBERS.items() if key in state and name in found}
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
        # An empty text takes an attribute away.
        removed = {"RedrivePolicy": "" if "redrivePolicy" in old and "redrivePolicy" not in new else None}
        removed["KmsMasterKeyId"] = "" if "kmsMasterKeyId" in old and "kmsMasterKeyId" not in new else None
        set_attributes(clients, id, {**{key: value for key, value in removed.items() if value is not None}, **changed})
        tags.retag(old, new, sqs.untag_queue, sqs.tag_queue, dict, QueueUrl=id)
        return self._outputs(clients, id, new)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("sqs").delete_queue(QueueUrl=id)
        set_redrive_allow_policy(clients, id, None)

    def _with_defaults(self, inputs: Values) -> Values:
        """Return the attributes as the provider sends them: with its own defaults, some of which are not those of SQS."""
        return {**{key: self.defaults[key] for key in _NUMBERS}, **inputs}

    def _outputs(self, clients: Clients, url: str, inputs: Values) -> Values:
        managed = inputs.get("sqsManagedSseEnabled", "kmsMasterKeyId" not in inputs)
        arn = clients.arn("sqs", inputs["name"])
        return self.outputs(inputs, {"arn": arn, "url": url, "sqsManagedSseEnabled": managed})

    def _attributes(self, clients: Clients, inputs: Values) -> dict[str, str]:
        """Return the attributes in the inputs. HandlerError for a key or a dead-letter queue that cannot be used."""
        where = f"queue {inputs['name']}"
        attributes = {name: str(inputs[key]) for key, (name, _, _) in _NUMBERS.items() if key in inputs}
        if "kmsMasterKeyId" in inputs:
            keys.require_key(clients, inputs["kmsMasterKeyId"], where)
            attributes["KmsMasterKeyId"] = inputs["kmsMasterKeyId"]
        elif "sqsManagedSseEnabled" in inputs:
            attributes["SqsManagedSseEnabled"] = str(inputs["sqsManagedSseEnabled"]).lower()
        if "redrivePolicy" in inputs:
            self._check_dead_letter_queue(clients, json.loads(inputs["redrivePolicy"])["deadLetterTargetArn"], where)
            attributes["RedrivePolicy"] = inputs["redrivePolicy"]
        return attributes

    @staticmethod
    def _check_dead_letter_queue(clients: Clients, arn: str, where: str) -> None:
        url = url_of(clients, arn)
        if url is None:
            raise HandlerError(f"{where}: the dead-letter queue {arn} does not exist")
        allowed = json.loads(redrive_allow_policy(clients, url) or "{}")
        own = clients.arn("sqs", where.removeprefix("queue "))
        permission = allowed.get("redrivePermission", "allowAll")
        if permission == "denyAll" or (permission == "byQueue" and own not in allowed.get("sourceQueueArns", [])):
            raise HandlerError(f"{where}: the redrive allow policy of {arn} does not let this queue use it")


def _redrive_problems(inputs: Values) -> Iterable[Problem]:
    value = known(inputs, "redrivePolicy")
    if value is None or UNKNOWN in str(value):
        return
    syntax = list(documents.json_problems(inputs, "redrivePolicy"))
    yield from syntax
    if syntax:
        return
    policy: dict[str, Any] = json.loads(value)
    if set(policy) != _REDRIVE_KEYS:
        found = ", ".join(sorted(policy)) or "nothing"
        yield Problem("redrivePolicy", f"it has {found}; use deadLetterTargetArn and maxReceiveCount")
        return
    count = policy["maxReceiveCount"]
    # A number in text is what SQS has taken since its query protocol, and the provider shows a difference for ever.
    if not isinstance(count, int) or not 1 <= count <= _MOST_RECEIVES:
        yield Problem("redrivePolicy.maxReceiveCount", f"{count!r} is not a whole number within 1-{_MOST_RECEIVES}")
