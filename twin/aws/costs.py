"""Budgets, and Cost Explorer's anomaly monitors and subscriptions. moto has the first; the others are the twin's records."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from twin.aws.base import documents, records, strict
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Handler, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none
from twin.aws.base.recorded import Recorded

_EMAILS_PER_NOTIFICATION = 10
_TOPICS_PER_NOTIFICATION = 1
_EXPRESSION_MEMBERS = frozenset({"And", "CostCategories", "Dimensions", "Not", "Or", "Tags"})
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Budget(Handler):
    token = "aws:budgets/budget:Budget"
    inputs = frozenset(
        {
            "budgetType",
            "filterExpression",
            "limitAmount",
            "limitUnit",
            "metrics",
            "name",
            "notifications",
            "tags",
            "timeUnit",
        }
    )
    computed = frozenset({"accountId", "arn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if ("filterExpression" in inputs) != ("metrics" in inputs):
            yield Problem("metrics", "filterExpression and metrics are given together, or neither")
        if "limitAmount" not in inputs or "limitUnit" not in inputs:
            yield Problem("limitAmount", "required with limitUnit: the twin has no other limits")
        elif known(inputs, "limitAmount") is not None and not _NUMBER.fullmatch(inputs["limitAmount"]):
            yield Problem("limitAmount", f"{inputs['limitAmount']!r} is not a number")
        for index, notification in enumerate(known(inputs, "notifications") or ()):
            yield from _notification_problems(notification, f"notifications[{index}]")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        account, name = clients.account_id, inputs["name"]
        if or_none(clients("budgets").describe_budget, AccountId=account, BudgetName=name) is not None:
            raise HandlerError(f"budget {name} already exists")
        self._put(clients, inputs)
        arn = f"arn:{clients.partition}:budgets::{account}:budget/{name}"
        return f"{account}:{name}", self.outputs(inputs, {"accountId": account, "arn": arn})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        account, _, name = id.partition(":")
        answer = or_none(clients("budgets").describe_budget, AccountId=account, BudgetName=name)
        if answer is None:
            return None
        found = answer["Budget"]
        limit = found["BudgetLimit"]
        return {
            **state,
            "limitAmount": limit["Amount"],
            "limitUnit": limit["Unit"],
            "budgetType": found["BudgetType"],
            "timeUnit": found["TimeUnit"],
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        # moto has no UpdateBudget; the account is one process, so nobody sees the moment between.
        self.delete(clients, id, old)
        self._put(clients, new)
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        account, _, name = id.partition(":")
        with gone_is_fine():
            clients("budgets").delete_budget(AccountId=account, BudgetName=name)

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        for notification in inputs.get("notifications", ()):
            for arn in notification.get("subscriberSnsTopicArns", ()):
                _require_topic(clients, arn, f"budget {inputs['name']}")
        budget: dict[str, Any] = {
            "BudgetName": inputs["name"],
            "BudgetType": inputs["budgetType"],
            "TimeUnit": inputs["timeUnit"],
            "BudgetLimit": {"Amount": inputs["limitAmount"], "Unit": inputs["limitUnit"]},
        }
        if "filterExpression" in inputs:
            budget["FilterExpression"] = _filter_expression(inputs["filterExpression"])
            budget["Metrics"] = [inputs["metrics"]]
        clients("budgets").create_budget(
            AccountId=clients.account_id,
            Budget=budget,
            NotificationsWithSubscribers=[_notification(each) for each in inputs.get("notifications", ())],
        )


def _notification_problems(notification: Mapping[str, Any], path: str) -> Iterable[Problem]:
    if notification == UNKNOWN:
        return
    emails = known(notification, "subscriberEmailAddresses") or ()
    topics = known(notification, "subscriberSnsTopicArns") or ()
    unknown = UNKNOWN in (notification.get("subscriberEmailAddresses"), notification.get("subscriberSnsTopicArns"))
    if not emails and not topics and not unknown:
        yield Problem(path, "has no subscriber")
    if len(emails) > _EMAILS_PER_NOTIFICATION:
        yield Problem(f"{path}.subscriberEmailAddresses", f"{len(emails)}; at most {_EMAILS_PER_NOTIFICATION}")
    if len(topics) > _TOPICS_PER_NOTIFICATION:
        yield Problem(f"{path}.subscriberSnsTopicArns", f"{len(topics)}; at most {_TOPICS_PER_NOTIFICATION}")


def _notification(values: Mapping[str, Any]) -> dict[str, Any]:
    emails = [{"SubscriptionType": "EMAIL", "Address": one} for one in values.get("subscriberEmailAddresses", ())]
    topics = [{"SubscriptionType": "SNS", "Address": one} for one in values.get("subscriberSnsTopicArns", ())]
    return {
        "Notification": {
            "NotificationType": values["notificationType"],
            "ComparisonOperator": values["comparisonOperator"],
            "Threshold": values["threshold"],
            "ThresholdType": values["thresholdType"],
        },
        "Subscribers": emails + topics,
    }


def _filter_expression(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provider's spelling of an expression as the API's: conjunctions of tags, which is what the twin has."""
    if set(values) == {"ands"} and all(set(term) == {"tags"} for term in values["ands"]):
        return {"And": [{"Tags": _tags_term(term["tags"])} for term in values["ands"]]}
    if set(values) == {"tags"}:
        return {"Tags": _tags_term(values["tags"])}
    raise HandlerError("filterExpression: the twin has tags and a conjunction of tags only: extend twin/aws/costs.py")


def _tags_term(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"Key": values["key"], "Values": values["values"], "MatchOptions": values.get("matchOptions", [])}


class _OfCostExplorer(Recorded):
    """One of Cost Explorer's that moto lacks: a record, whose request botocore's model has accepted."""

    kind: ClassVar[str]
    operation: ClassVar[str]
    computed = frozenset({"arn"})
    name_input = "name"

    def request(self, clients: Clients, inputs: Values) -> dict[str, Any]:
        """Return what the provider sends to `operation`. Raises HandlerError for what AWS would refuse."""
        raise NotImplementedError

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["name"]
        if records.get(clients, self.record_name(inputs)) is not None:
            raise HandlerError(f"{self.kind} {name} already exists")
        strict.check(clients("ce"), self.operation, self.request(clients, inputs))
        digest = hashlib.sha256(f"{clients.account_id}/{self.kind}/{name}".encode()).hexdigest()
        id = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
        arn = f"arn:{clients.partition}:ce::{clients.account_id}:{self.kind.replace('-', '')}/{id}"
        outputs = self.outputs(inputs, {"arn": arn})
        records.put(clients, self.record_name(inputs), outputs)
        return arn, outputs

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        strict.check(clients("ce"), self.operation, self.request(clients, new))
        return super().update(clients, id, old, new)

    def record_name(self, values: Values) -> str:
        return records.path("ce", self.kind, values["name"])


class AnomalyMonitor(_OfCostExplorer):
    token = "aws:costexplorer/anomalyMonitor:AnomalyMonitor"
    kind = "anomaly-monitor"
    operation = "CreateAnomalyMonitor"
    inputs = frozenset({"monitorSpecification", "monitorType", "name", "tags"})
    replace_on = frozenset({"monitorSpecification", "monitorType"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        if known(inputs, "monitorType") not in (None, "CUSTOM"):
            yield Problem("monitorType", f"{inputs['monitorType']!r}: the twin has CUSTOM monitors only")
        if "monitorSpecification" not in inputs:
            yield Problem("monitorSpecification", "required for a CUSTOM monitor")
            return
        syntax = list(documents.json_problems(inputs, "monitorSpecification"))
        yield from syntax
        if syntax or known(inputs, "monitorSpecification") is None:
            return
        given = {key for key, value in json.loads(inputs["monitorSpecification"]).items() if value is not None}
        if given - _EXPRESSION_MEMBERS:
            yield Problem("monitorSpecification", f"unknown members {', '.join(sorted(given - _EXPRESSION_MEMBERS))}")
        elif len(given) != 1 or not given <= {"CostCategories", "Dimensions", "Tags"}:
            yield Problem(
                "monitorSpecification", "a CUSTOM monitor takes exactly one of Dimensions, Tags and CostCategories"
            )

    def request(self, clients: Clients, inputs: Values) -> dict[str, Any]:
        return {
            "AnomalyMonitor": {
                "MonitorName": inputs["name"],
                "MonitorType": inputs["monitorType"],
                "MonitorSpecification": _without_nulls(json.loads(inputs["monitorSpecification"])),
            },
            "ResourceTags": [{"Key": key, "Value": value} for key, value in sorted(inputs.get("tags", {}).items())],
        }


class AnomalySubscription(_OfCostExplorer):
    token = "aws:costexplorer/anomalySubscription:AnomalySubscription"
    kind = "anomaly-subscription"
    operation = "CreateAnomalySubscription"
    inputs = frozenset({"frequency", "monitorArnLists", "name", "subscribers", "tags", "thresholdExpression"})
    replace_on = frozenset({"name"})

    def rules(self, inputs: Values) -> Iterable[Problem]:
        frequency = known(inputs, "frequency")
        for index, subscriber in enumerate(known(inputs, "subscribers") or ()):
            kind = subscriber.get("type")
            if frequency is not None and kind in ("EMAIL", "SNS") and (kind == "SNS") != (frequency == "IMMEDIATE"):
                yield Problem(f"subscribers[{index}]", f"{kind} with frequency {frequency}: SNS is IMMEDIATE, EMAIL is not")

    def request(self, clients: Clients, inputs: Values) -> dict[str, Any]:
        where = f"anomaly subscription {inputs['name']}"
        monitors = {record["arn"] for record in records.below(clients, records.path("ce", AnomalyMonitor.kind)).values()}
        for arn in inputs["monitorArnLists"]:
            if arn not in monitors:
                raise HandlerError(f"{where}: there is no anomaly monitor {arn}")
        for subscriber in inputs["subscribers"]:
            if subscriber["type"] == "SNS":
                _require_topic(clients, subscriber["address"], where)
        subscription: dict[str, Any] = {
            "SubscriptionName": inputs["name"],
            "Frequency": inputs["frequency"],
            "MonitorArnList": inputs["monitorArnLists"],
            "Subscribers": [{"Type": one["type"], "Address": one["address"]} for one in inputs["subscribers"]],
        }
        dimension = inputs.get("thresholdExpression", {}).get("dimension")
        if dimension is not None:
            subscription["ThresholdExpression"] = {
                "Dimensions": {
                    "Key": dimension["key"],
                    "MatchOptions": dimension["matchOptions"],
                    "Values": dimension["values"],
                }
            }
        return {"AnomalySubscription": subscription}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _require_topic(clients: Clients, arn: str, where: str) -> None:
    """Refuse a topic of this account that there is not; another account's is not looked at."""
    if f":{clients.account_id}:" in arn and or_none(clients("sns").get_topic_attributes, TopicArn=arn) is None:
        raise HandlerError(f"{where}: the SNS topic {arn} does not exist")
