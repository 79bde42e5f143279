"""Handle what resources of their own set on a queue: its policy, and which queues may use it for their dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from twin.aws.base import documents
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values
from twin.aws.base.lookup import gone_is_fine
from twin.aws.iam import trust
from twin.aws.sqs.queue import find_queue, require_queue, set_attributes

_POLICY_LIMIT = 8192  # bytes
_PERMISSIONS = ("allowAll", "byQueue", "denyAll")
_MOST_SOURCES = 10


class _QueueSetting(Handler):
    """One attribute of one queue; its id is the queue's URL."""

    key: ClassVar[str]
    replace_on = frozenset({"queueUrl"})

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        self._put(clients, inputs)
        return inputs["queueUrl"], self.outputs(inputs, {})

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        return self.kept(new, old)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        text = self.load(clients, id)
        if not text:
            return None
        same = json.loads(text) == json.loads(state[self.key])
        return {**state, self.key: state[self.key] if same else text}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            self.store(clients, id, None)

    def _put(self, clients: Clients, inputs: Values) -> None:
        queue = require_queue(clients, inputs["queueUrl"], self.token)
        self.check_references(clients, queue["QueueArn"], documents.parse(inputs[self.key]))
        self.store(clients, inputs["queueUrl"], inputs[self.key])

    def load(self, clients: Clients, url: str) -> str | None:
        """Return the document that the queue has."""
        raise NotImplementedError

    def store(self, clients: Clients, url: str, text: str | None) -> None:
        """Give the queue the document; None takes it away."""
        raise NotImplementedError

    def check_references(self, clients: Clients, arn: str, document: Values) -> None:
        """Refuse what names something that does not exist or is not this queue."""


class QueuePolicy(_QueueSetting):
    token = "aws:sqs/queuePolicy:QueuePolicy"
    inputs = frozenset({"policy", "queueUrl"})
    key = "policy"

    def load(self, clients: Clients, url: str) -> str | None:
        return (find_queue(clients, url) or {}).get("Policy")

    def store(self, clients: Clients, url: str, text: str | None) -> None:
        set_attributes(clients, url, {"Policy": text or ""})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        return documents.policy_problems(inputs, "policy", limit=_POLICY_LIMIT, resource=True, principal=True)

    def check_references(self, clients: Clients, arn: str, document: Values) -> None:
        for statement in documents.statements(document):
            for resource in documents.as_list(statement.get("Resource")):
                if resource not in (arn, "*"):
                    raise HandlerError(f"policy of queue {arn}: resource {resource} is not this queue")
            principal = statement.get("Principal")
            for value in documents.as_list(principal.get("AWS")) if isinstance(principal, dict) else ():
                trust.check_aws_principal(clients, value, f"policy of queue {arn}")
