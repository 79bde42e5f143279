"""Lifecycle rules of a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.errors import Problem
from twin.aws.base.handler import UNKNOWN, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.s3.settings import _BucketSetting

_ACTIONS = (
    "abortIncompleteMultipartUpload",
    "expiration",
    "noncurrentVersionExpiration",
    "noncurrentVersionTransitions",
    "transitions",
)
_DAY_KEYS = {
    "abortIncompleteMultipartUpload": "daysAfterInitiation",
    "expiration": "days",
    "noncurrentVersionExpiration": "noncurrentDays",
}
_INFREQUENT = ("STANDARD_IA", "ONEZONE_IA")
_INFREQUENT_DAYS = 30


class BucketLifecycle(_BucketSetting):
    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    inputs = frozenset({"bucket", "rules"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        rules = known(inputs, "rules")
        if rules is None:
            return
        if not rules:
            yield Problem("rules", "at least one rule is required")
        ids = [str(rule.get("id")) for rule in rules if isinstance(rule, dict)]
        for id in sorted({id for id in ids if ids.count(id) > 1}):
            yield Problem("rules", f"two rules have the id {id!r}")
        for index, rule in enumerate(rules):
            if isinstance(rule, dict):
                yield from _rule_problems(rule, f"rules[{index}]")

    def put(self, clients: Clients, inputs: Values) -> None:
        clients("s3").put_bucket_lifecycle_configuration(
            Bucket=inputs["bucket"], LifecycleConfiguration={"Rules": _request(inputs["rules"])}
        )

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        answer = or_none(clients("s3").get_bucket_lifecycle_configuration, Bucket=id)
        if answer is None:
            return None
        found = answer["Rules"]
        same = _comparable(found) == _comparable(_request(state["rules"]))
        return {**state, "rules": state["rules"] if same else [_camel(rule) for rule in found]}

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("s3").delete_bucket_lifecycle(Bucket=id)


def _rule_problems(rule: Values, where: str) -> Iterator[Problem]:
    if rule.get("status") not in ("Enabled", "Disabled", UNKNOWN):
        yield Problem(f"{where}.status", f"{rule.get('status')!r} is not Enabled or Disabled")
    if not any(rule.get(action) for action in _ACTIONS):
        yield Problem(where, f"no action; one of {', '.join(_ACTIONS)} is required")
    for action, key in _DAY_KEYS.items():
        days = (rule.get(action) or {}).get(key)
        if isinstance(days, int) and days < 1:
            yield Problem(f"{where}.{action}.{key}", f"{days} is not at least 1 day")
    expiration = (rule.get("expiration") or {}).get("days")
    for index, transition in enumerate(rule.get("transitions") or ()):
        days, place = transition.get("days"), f"{where}.transitions[{index}].days"
        if isinstance(days, int) and transition.get("storageClass") in _INFREQUENT and days < _INFREQUENT_DAYS:
            yield Problem(place, f"{days}; {transition['storageClass']} wants at least {_INFREQUENT_DAYS} days")
        if isinstance(days, int) and isinstance(expiration, int) and expiration <= days:
            yield Problem(place, f"{days}; the objects expire after {expiration} days already")


def _request(rules: list[Values]) -> list[dict[str, Any]]:
    return [{**_pascal(rule), "Filter": _filter(rule.get("filter") or {})} for rule in rules]


def _filter(value: Values) -> dict[str, Any]:
    if "and" in value:
        both = value["and"]
        pairs = [{"Key": key, "Value": item} for key, item in sorted(both.get("tags", {}).items())]
        rest = {key: item for key, item in both.items() if key != "tags"}
        return {"And": {**_pascal(rest), **({"Tags": pairs} if pairs else {})}}
    return _pascal(value) if value else {"Prefix": ""}


def _pascal(value: Any) -> Any:
    if isinstance(value, dict):
        return {("ID" if key == "id" else key[0].upper() + key[1:]): _pascal(item) for key, item in value.items()}
    return [_pascal(item) for item in value] if isinstance(value, list) else value


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {("id" if key == "ID" else key[0].lower() + key[1:]): _camel(item) for key, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value


def _comparable(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        ({key: value for key, value in rule.items() if key != "Filter" or value != {"Prefix": ""}} for rule in rules),
        key=lambda rule: str(rule.get("ID")),
    )
