"""Filters of a webhook of CodeBuild, by botocore's model of the service and its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import InvalidInputs
from twin.aws.base.strict import StrictError
from twin.aws.codebuild import Webhook

EVENT = {"type": "EVENT", "pattern": "WORKFLOW_JOB_QUEUED"}
ACTOR = {"type": "ACTOR_ACCOUNT_ID", "pattern": "^(583231)$"}
WORKFLOW = {"type": "WORKFLOW_NAME", "pattern": "^(deploy)$"}
UNKNOWN_TYPE = {"type": "ACTOR_ID", "pattern": "^(583231)$"}


def inputs(*groups: list[dict[str, str]]) -> dict[str, Any]:
    return {"projectName": "runner", "filterGroups": [{"filters": group} for group in groups]}


@pytest.fixture(scope="module")
def project(clients: Clients) -> Iterator[Clients]:
    path = records.path("codebuild-projects", "runner")
    records.put(clients, path, {"name": "runner"})
    yield clients
    records.delete(clients, path)


def test_filters_change_in_place(project: Clients) -> None:
    webhook, before, after = Webhook(), inputs([EVENT, WORKFLOW]), inputs([EVENT, ACTOR, WORKFLOW])
    id, outputs = webhook.create(project, webhook.check(before))
    assert webhook.diff(before, after).replaces == ()
    assert webhook.update(project, id, outputs, webhook.check(after))["filterGroups"] == after["filterGroups"]
    with pytest.raises(StrictError, match=r"UpdateWebhook: .*'ACTOR_ID'"):
        webhook.update(project, id, outputs, inputs([EVENT, UNKNOWN_TYPE]))
    seen = webhook.read(project, id, outputs)
    assert seen is not None and seen["filterGroups"] == after["filterGroups"]
    webhook.delete(project, id, outputs)
    with pytest.raises(StrictError, match=r"CreateWebhook: .*'ACTOR_ID'"):
        webhook.create(project, inputs([EVENT, UNKNOWN_TYPE]))


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([], "filterGroups: is empty"),
        ([[EVENT], [ACTOR, WORKFLOW]], "filterGroups[1]: has no filter of the type EVENT"),
    ],
)
def test_each_group_says_which_events_it_is_about(groups: list[list[dict[str, str]]], problem: str) -> None:
    with pytest.raises(InvalidInputs, match=re.escape(problem)):
        Webhook().check(inputs(*groups))
