"""CloudWatch alarms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from twin.aws.base import tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import Handler, Values, known
from twin.aws.base.lookup import gone_is_fine, or_none

_PLAIN: dict[str, str] = {
    "alarmDescription": "AlarmDescription",
    "comparisonOperator": "ComparisonOperator",
    "evaluationPeriods": "EvaluationPeriods",
    "datapointsToAlarm": "DatapointsToAlarm",
    "metricName": "MetricName",
    "namespace": "Namespace",
    "period": "Period",
    "statistic": "Statistic",
    "threshold": "Threshold",
    "treatMissingData": "TreatMissingData",
    "unit": "Unit",
}
_ACTIONS: dict[str, str] = {
    "alarmActions": "AlarmActions",
    "insufficientDataActions": "InsufficientDataActions",
    "okActions": "OKActions",
}
_MISSING_DATA = ("breaching", "ignore", "missing", "notBreaching")
_SHORT_PERIODS = (10, 20, 30)
_MINUTE, _HOUR, _DAY, _WEEK = 60, 3600, 86_400, 604_800
_MOST_ACTIONS = 5
_REQUIRED = ("metricName", "namespace", "period", "statistic", "threshold")


class MetricAlarm(Handler):
    token = "aws:cloudwatch/metricAlarm:MetricAlarm"
    inputs = frozenset({"dimensions", "name", "tags", *_PLAIN, *_ACTIONS})
    defaults: ClassVar[Values] = {"actionsEnabled": True, "treatMissingData": "missing"}
    computed = frozenset({"arn"})
    replace_on = frozenset({"name"})
    name_input = "name"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        for key in _REQUIRED:
            if inputs.get(key) is None:
                yield Problem(key, "required for an alarm on one metric, the only kind that the twin has")
        missing = known(inputs, "treatMissingData")
        if missing is not None and missing not in _MISSING_DATA:
            yield Problem("treatMissingData", f"{missing!r} is not one of {', '.join(_MISSING_DATA)}")
        period = known(inputs, "period")
        if period is not None and period not in _SHORT_PERIODS and (period < _MINUTE or period % _MINUTE):
            yield Problem("period", f"{period} is not 10, 20, 30 or a multiple of {_MINUTE} seconds")
        periods, points = known(inputs, "evaluationPeriods"), known(inputs, "datapointsToAlarm")
        longest = _WEEK if (period or 0) >= _HOUR else _DAY
        if period is not None and periods is not None and period * periods > longest:
            yield Problem("evaluationPeriods", f"{periods} periods of {period} s are more than {longest} s")
        if periods is not None and points is not None and points > periods:
            yield Problem("datapointsToAlarm", f"{points} is more than the {periods} evaluation periods")
        for key in _ACTIONS:
            listed = known(inputs, key) or []
            if len(listed) > _MOST_ACTIONS:
                yield Problem(key, f"{len(listed)} actions; at most {_MOST_ACTIONS}")

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["name"]
        if self._find(clients, name) is not None:
            # PutMetricAlarm would take it over in silence.
            raise HandlerError(f"alarm {name} already exists")
        self._put(clients, inputs)
        return name, self.outputs(inputs, {"arn": clients.arn("cloudwatch", f"alarm:{name}")})

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        found = self._find(clients, id)
        if found is None:
            return None
        plain = {key: found[name] for key, name in _PLAIN.items() if key in state and name in found}
        actions = {key: found.get(name, []) for key, name in _ACTIONS.items() if key in state}
        seen = {item["Name"]: item["Value"] for item in found.get("Dimensions", [])}
        dimensions = {"dimensions": seen} if seen or "dimensions" in state else {}
        listed = clients("cloudwatch").list_tags_for_resource(ResourceARN=state["arn"]).get("Tags")
        return {**state, **plain, **actions, **dimensions, **tags.observed(state, tags.from_list(listed))}

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        self._put(clients, new)
        cloudwatch = clients("cloudwatch")
        tags.retag(old, new, cloudwatch.untag_resource, cloudwatch.tag_resource, ResourceARN=old["arn"])
        return self.kept(new, old)

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        with gone_is_fine():
            clients("cloudwatch").delete_alarms(AlarmNames=[id])

    @staticmethod
    def _find(clients: Clients, name: str) -> dict[str, Any] | None:
        found = clients("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
        return dict(found[0]) if found else None

    @staticmethod
    def _put(clients: Clients, inputs: Values) -> None:
        request: dict[str, Any] = {name: inputs[key] for key, name in _PLAIN.items() if key in inputs}
        for key, name in _ACTIONS.items():
            for arn in inputs.get(key) or ():
                _check_action(clients, arn, f"alarm {inputs['name']}")
            if inputs.get(key):
                request[name] = inputs[key]
        if inputs.get("dimensions"):
            pairs = sorted(inputs["dimensions"].items())
            request["Dimensions"] = [{"Name": key, "Value": value} for key, value in pairs]
        clients("cloudwatch").put_metric_alarm(AlarmName=inputs["name"], **request, Tags=tags.to_list(inputs.get("tags")))


def _check_action(clients: Clients, arn: str, where: str) -> None:
    """Refuse an SNS topic of this account that there is not; other actions are not looked at."""
    parts = arn.split(":")
    if parts[0] != "arn" or len(parts) < 6:
        raise HandlerError(f"{where}: action {arn!r} is not an ARN")
    if parts[2] == "sns" and parts[3] != clients.region:
        raise HandlerError(
            f"{where}: the SNS topic {arn} is in {parts[3]}, and an alarm only tells topics of its own region"
        )
    own_topic = (parts[2], parts[4]) == ("sns", clients.account_id)
    if own_topic and or_none(clients("sns").get_topic_attributes, TopicArn=arn) is None:
        raise HandlerError(f"{where}: the SNS topic {arn} does not exist")
