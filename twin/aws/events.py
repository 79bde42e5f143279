"""EventBridge: rules of the default bus, and their targets."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import documents, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Handler, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.sqs.queue import find_queue, url_of

_PATTERN_LIMIT = 4096  # characters
_DEFAULT_BUS = "default"


def find_rule(clients: Clients, name: str) -> dict[str, Any] | None:
    """Return EventBridge's description of a rule, None when it does not exist."""
    answer = or_none(clients("events").describe_rule, Name=name)
    return None if answer is None else dict(answer)


class EventRule(Handler):
    token = "aws:cloudwatch/eventRule:EventRule"
    inputs = frozenset({"description", "eventPattern", "name", "tags"})
    defaults: ClassVar[Values] = {"eventBusName": _DEFAULT_BUS, "state": "ENABLED"}
    computed = frozenset({"arn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        pattern = known(inputs, "eventPattern")
        if "eventPattern" not in inputs:
            yield Problem("eventPattern", "required: the twin has rules for events and none for a schedule")
        elif pattern is not None and UNKNOWN not in str(pattern):
            yield from _pattern_problems(inputs)

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        if find_rule(clients, inputs["name"]) is not None:
            # PutRule would take it over in silence.
            raise HandlerError(f"rule {inputs['name']} already exists")
        arn = self._put(clients, inputs, tags.to_list(inputs.get("tags")))
        return inputs["name"], self.outputs(inputs, {"arn": arn})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = find_rule(clients, id)
        if found is None:
            return None
        seen = {**state, "state": found["State"]}
        if found.get("Description") or "description" in state:
            seen["description"] = found.get("Description", "")
        pattern = found.get("EventPattern", "{}")
        same = json.loads(pattern) == json.loads(state["eventPattern"])
        seen["eventPattern"] = state["eventPattern"] if same else pattern
        listed = clients("events").list_tags_for_resource(ResourceARN=state["arn"])["Tags"]
        return {**seen, **tags.observed(state, tags.from_list(listed))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new, [])
        tags.retag(old, new, clients("events").untag_resource, clients("events").tag_resource, ResourceARN=old["arn"])
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if find_rule(clients, id) is None:
            return
        targets = clients("events").list_targets_by_rule(Rule=id)["Targets"]
        if targets:
            # AWS refuses it, moto deletes the rule and forgets the targets.
            raise HandlerError(f"rule {id}: it has targets: {', '.join(sorted(item['Id'] for item in targets))}")
        with gone_is_fine():
            clients("events").delete_rule(Name=id)

    @staticmethod
    def _put(clients: Clients, inputs: Values, pairs: list[dict[str, str]]) -> str:
        optional = {"Description": inputs["description"]} if inputs.get("description") else {}
        answer = clients("events").put_rule(
            Name=inputs["name"], EventPattern=inputs["eventPattern"], **optional, **({"Tags": pairs} if pairs else {})
        )
        return str(answer["RuleArn"])


class EventTarget(Handler):
    token = "aws:cloudwatch/eventTarget:EventTarget"
    inputs = frozenset({"arn", "rule", "targetId"})
    defaults: ClassVar[Values] = {"eventBusName": _DEFAULT_BUS}
    replace_on = frozenset({"rule", "targetId"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if "targetId" not in inputs:
            yield Problem("targetId", "required: the twin makes up no ids of targets")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        if self._find(clients, inputs) is not None:
            raise HandlerError(f"rule {inputs['rule']}: target {inputs['targetId']} already exists")
        self._put(clients, inputs)
        return f"{inputs['rule']}-{inputs['targetId']}", self.outputs(inputs, {})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = self._find(clients, state)
        return None if found is None else {**state, "arn": found["Arn"]}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if self._find(clients, state) is not None:
            clients("events").remove_targets(Rule=state["rule"], Ids=[state["targetId"]])

    @staticmethod
    def _find(clients: Clients, values: Values) -> dict[str, Any] | None:
        if find_rule(clients, values["rule"]) is None:
            return None
        targets = clients("events").list_targets_by_rule(Rule=values["rule"])["Targets"]
        return next((dict(item) for item in targets if item["Id"] == values["targetId"]), None)

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        rule, arn = inputs["rule"], inputs["arn"]
        if find_rule(clients, rule) is None:
            raise HandlerError(f"target {inputs['targetId']}: rule {rule} does not exist")
        _check_queue(clients, rule, arn)
        clients("events").put_targets(Rule=rule, Targets=[{"Id": inputs["targetId"], "Arn": arn}])


def _check_queue(clients: Clients, rule: str, arn: str) -> None:
    """Require a queue of this account as the target, which lets the rule write: AWS takes any, and delivers to none."""
    url = url_of(clients, arn) if arn.split(":")[2:3] == ["sqs"] else None
    if url is None:
        raise HandlerError(
            f"rule {rule}: {arn} is not a queue of this account and region, the only target that the twin has"
        )
    attributes = find_queue(clients, url) or {}
    statements = documents.statements(json.loads(attributes.get("Policy") or "{}"))
    rule_arn = clients.arn("events", f"rule/{rule}")
    if not any(_lets_rule_in(statement, rule_arn) for statement in statements):
        raise HandlerError(
            f"rule {rule}: the policy of queue {arn} does not let events.amazonaws.com send for {rule_arn}, so that nothing "
            "would arrive"
        )
    if attributes.get("KmsMasterKeyId") and not _may_encrypt(clients, attributes["KmsMasterKeyId"]):
        raise HandlerError(
            f"rule {rule}: the policy of the key of queue {arn} does not let events.amazonaws.com encrypt "
            "(kms:GenerateDataKey and kms:Decrypt), so that nothing would arrive"
        )


def _lets_rule_in(statement: Values, rule_arn: str) -> bool:
    if not _is_for_events(statement) or "sqs:SendMessage" not in documents.as_list(statement.get("Action")):
        return False
    for operator, wanted in (statement.get("Condition") or {}).items():
        for key, patterns in wanted.items():
            source = {"aws:sourcearn": rule_arn, "aws:sourceaccount": rule_arn.split(":")[4]}.get(key.lower())
            like = operator in ("ArnLike", "ArnEquals", "StringLike")
            matches = [
                fnmatch.fnmatchcase(source, pattern) if like else source == pattern
                for pattern in documents.as_list(patterns)
                if source is not None
            ]
            if not any(matches):
                return False
    return True


def _may_encrypt(clients: Clients, key: str) -> bool:
    policy = json.loads(clients("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    allowed = {
        action
        for statement in documents.statements(policy)
        if _is_for_events(statement)
        for action in documents.as_list(statement.get("Action"))
    }
    return "kms:*" in allowed or {"kms:GenerateDataKey", "kms:Decrypt"} <= {action.removesuffix("*") for action in allowed}


def _is_for_events(statement: Values) -> bool:
    principal = statement.get("Principal")
    services = documents.as_list(principal.get("Service")) if isinstance(principal, dict) else []
    return statement.get("Effect") == "Allow" and "events.amazonaws.com" in services


def _pattern_problems(inputs: Values) -> Iterable[Problem]:
    syntax = list(documents.json_problems(inputs, "eventPattern"))
    yield from syntax
    if syntax:
        return
    text = inputs["eventPattern"]
    if len(text) > _PATTERN_LIMIT:
        yield Problem("eventPattern", f"{len(text)} characters; at most {_PATTERN_LIMIT}")
    for key, value in documents.parse(text).items():
        if not isinstance(value, list | dict):
            yield Problem(f"eventPattern.{key}", f"{value!r}; a list of values, or a mapping, is expected")
