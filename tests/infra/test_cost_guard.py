"""Budget and anomaly alarm, through the twin's handlers, and their settings in a stack file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from infra.aws.budget import CostGuard
from spec.settings import Settings, SettingsError
from spec.settings.cost import CostLimits
from tests.infra.access import stack as stack_of
from tests.paths import ROOT
from tests.stackctl.cost.test_usage import stack
from tests.system.component.engine.lifecycle import destroy, refresh
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording, StackFailed
from twin.aws import table
from twin.aws.base.clients import Clients

BUDGET = "aws:budgets/budget:Budget"
MONITOR = "aws:costexplorer/anomalyMonitor:AnomalyMonitor"
SUBSCRIPTION = "aws:costexplorer/anomalySubscription:AnomalySubscription"


@pytest.fixture
def clients() -> Iterator[Clients]:
    with mock_aws():
        yield Clients("us-west-2")


def made(clients: Clients, *, preview: bool = False, environment: str = "prod", **changes: Any) -> Recording:
    limits = CostLimits.model_validate(
        {"monthlyUsd": 5000, "anomalies": True, "emails": ["oncall@example.com"], **changes}, strict=False
    )

    def program() -> None:
        CostGuard("cost", stack_of(environment), limits)

    return run(program, project="triton-eks", stack="prod", config={}, root=ROOT, clients=clients, preview=preview)


def test_the_budget_is_of_this_stack_and_tells_in_time(clients: Clients) -> None:
    budget = made(clients).one(BUDGET).checked
    assert (budget["name"], budget["limitAmount"], budget["limitUnit"]) == ("triton-prod-us-west-2", "5000", "USD")
    tags = {"environment": "prod", "project": "triton-eks"}
    assert budget["filterExpression"] == {
        "ands": [{"tags": {"key": key, "values": [value], "matchOptions": ["EQUALS"]}} for key, value in tags.items()]
    }
    assert [(one["notificationType"], one["threshold"]) for one in budget["notifications"]] == [
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]


def test_unusual_costs_are_told_by_mail_daily_and_to_a_topic_at_once(clients: Clients) -> None:
    topic = clients("sns").create_topic(Name="costs")["TopicArn"]
    recording = made(clients, topicArn=topic)
    monitor = recording.one(MONITOR)
    specification = json.loads(monitor.checked["monitorSpecification"])
    assert specification.pop("Tags") == {"Key": "project", "MatchOptions": None, "Values": ["triton-eks"]}
    assert set(specification.values()) == {None}
    told = {
        (item.checked["frequency"], *(one["type"] for one in item.checked["subscribers"]))
        for item in recording.of_type(SUBSCRIPTION)
    }
    assert told == {("DAILY", "EMAIL"), ("IMMEDIATE", "SNS")}
    for item in recording.of_type(SUBSCRIPTION):
        assert item.checked["monitorArnLists"] == [monitor.outputs["arn"]]
        assert item.checked["thresholdExpression"]["dimension"]["values"] == ["500"]  # a tenth of the budget
    for notification in recording.one(BUDGET).checked["notifications"]:
        assert notification["subscriberSnsTopicArns"] == [topic]


def test_without_being_asked_nothing_is_made_that_a_member_account_may_not_have(clients: Clients) -> None:
    recording = made(clients, anomalies=False)
    assert [item.type for item in recording.registrations if item.custom] == [BUDGET]


def test_preview_and_up_register_the_same_a_refresh_finds_no_drift_and_a_destroy_leaves_nothing(clients: Clients) -> None:
    preview, up = made(clients, preview=True), made(clients)
    assert preview.urns() == up.urns()
    found = refresh(clients, up)
    assert (found.outputs, found.inputs) == ([], [])
    destroy(clients, up)
    made(clients)  # the deleted stack left no conflicting resource


def test_a_changed_budget_is_changed_in_place(clients: Clients) -> None:
    recording = made(clients)
    budget, handler = recording.one(BUDGET), table.handler(BUDGET)
    new = {**budget.checked, "limitAmount": "7000"}
    assert handler.diff(budget.checked, new).replaces == ()
    handler.update(clients, budget.id, dict(budget.outputs), new)
    state = handler.read(clients, budget.id, dict(budget.outputs))
    assert state is not None and state["limitAmount"] == "7000"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"topicArn": "arn:aws:sns:us-west-2:123456789012:nobody"},
            "subscriberSnsTopicArns: the topic .*nobody does not exist",
        ),
        ({"environment": "a" * 84}, "BudgetName: 101 characters, at most 100"),
    ],
)
def test_what_aws_would_refuse_is_refused(clients: Clients, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StackFailed, match=said):
        made(clients, **changes)


def limited(limits: dict[str, Any]) -> Settings:
    return stack("dev", lambda sections: sections.update({"cost": limits}))


def test_a_stack_may_have_limits_and_needs_none() -> None:
    assert stack("dev").cost is None
    limits = limited({"monthlyUsd": 800, "emails": ["oncall@example.com"]}).cost
    assert limits is not None and (limits.monthly_usd, limits.emails) == (800, ("oncall@example.com",))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"monthlyUsd": 800}, "cost: tells nobody; give emails, like"),
        ({"emails": ["a@example.com"]}, "cost.monthlyUsd: is missing; give the budget in US dollars a month"),
        ({"monthlyUsd": 0, "topicArn": "x"}, "cost.monthlyUsd: 0 is out of range; use 1 to 10000000 US dollars a month"),
        ({"monthlyUsd": 8, "emails": ["me"]}, r"cost.emails\[0\]: 'me' is not an e-mail address; give one like"),
        ({"monthlyUsd": 8, "emails": ["a@b.ch", "a@b.ch"]}, "a@b.ch is listed twice, in whatever case; remove one"),
        ({"monthlyUsd": 8, "emails": [f"a{n}@b.ch" for n in range(11)]}, "11 addresses are listed; AWS takes up to 10"),
        ({"monthlyUsd": 8, "mails": ["a@b.c"]}, "cost.mails: unknown key; did you mean 'emails'"),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        limited(limits)
