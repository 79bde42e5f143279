"""Mistakes in the section `monitoring`, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spec.stack_config import complaints, settings

TOPIC = "arn:aws:sns:us-west-2:123456789012:oncall"
WORKSPACE = "ws-01234567-89ab-cdef-0123-456789abcdef"
SECTION: dict[str, Any] = {
    "runbooks": "https://wiki.example.com/triton/runbooks",
    "replicas": 2,
    "retentionDays": 15,
    "storageGiB": 50,
    "alertTopicArn": TOPIC,
}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in SECTION.items() if name != key}


def test_a_stack_without_the_section_is_not_monitored() -> None:
    assert settings().monitoring is None


def test_a_workspace_and_a_topic_are_optional() -> None:
    monitoring = settings({"monitoring": without("alertTopicArn")}).monitoring
    assert monitoring is not None
    assert (monitoring.amp, monitoring.alert_topic_arn) == (None, None)


def test_a_workspace_is_named_by_its_id() -> None:
    monitoring = settings({"monitoring": {**SECTION, "amp": {"workspaceId": WORKSPACE}}}).monitoring
    assert monitoring is not None
    assert monitoring.amp is not None
    assert monitoring.amp.workspace_id == WORKSPACE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"runbooks": f"https://wiki.example.com/{'x' * 5000}"},
            "monitoring.runbooks: it has 5025 characters; give one like https://wiki.example.com/triton, of 2048 at most",
        ),
        (
            {"runbooks": "docs/runbooks"},
            "monitoring.runbooks: 'docs/runbooks' is not an https address; give one like https://wiki.example.com/triton",
        ),
        ({"replicas": 4}, "monitoring.replicas: 4 is out of range; use 1 to 3 replicas"),
        ({"retentionDays": 0}, "monitoring.retentionDays: 0 is out of range; use 1 to 365 days"),
        ({"storageGiB": 5}, "monitoring.storageGiB: 5 is out of range; use 10 to 16384 GiB"),
        (
            {"amp": {"workspaceId": "ws-1"}},
            "monitoring.amp.workspaceId: 'ws-1' is not the id of a workspace of Amazon Managed Service for Prometheus; give "
            f"the id of a workspace, like {WORKSPACE}",
        ),
        (
            {"alertTopicArn": "oncall"},
            "monitoring.alertTopicArn: 'oncall' is not the ARN of an SNS topic; give the ARN of an SNS topic, like "
            "arn:aws:sns:us-west-2:123456789012:oncall",
        ),
    ],
)
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], said: str) -> None:
    assert complaints({"monitoring": {**SECTION, **changes}}) == [said]


def test_alerts_that_reach_nobody_are_worth_a_warning() -> None:
    said = [str(warning) for warning in settings({"monitoring": without("alertTopicArn")}).warnings]
    assert any(line.startswith("monitoring.alertTopicArn: is not given, so that alerts are seen only") for line in said)
    assert not any("alertTopicArn" in str(warning) for warning in settings({"monitoring": SECTION}).warnings)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            without("alertTopicArn"),
            "monitoring.alertTopicArn: prod invariant 'alerts reach somebody': they are seen only by who looks; "
            "give the ARN of an SNS topic",
        ),
        (
            {**SECTION, "replicas": 1},
            "monitoring.replicas: prod invariant 'two Prometheus': nothing is watched while 1 is replaced; use 2 or more",
        ),
    ],
)
def test_prod_is_watched_by_two_and_tells_somebody(section: dict[str, Any], said: str) -> None:
    assert complaints({"monitoring": section}, stack="prod") == [said]
    settings({"monitoring": section}, stack="staging")
