"""A stack's account, and whether durable resources may be deleted."""

from __future__ import annotations

from typing import Any

import pytest

from spec.settings import load
from tests.spec.stack_config import REMOVED, TODAY, complaints, config, settings


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"aws:allowedAccountIds": [123456789012]},
            [
                "aws:allowedAccountIds[0]: 123456789012 is a number; give the 12 digits of an AWS account in quotes, like "
                '"123456789012"'
            ],
        ),
        (
            {"aws:allowedAccountIds": ["1234"]},
            [
                "aws:allowedAccountIds[0]: '1234' is not the id of an AWS account; give the 12 digits of an AWS account in "
                'quotes, like "123456789012"'
            ],
        ),
        ({"aws:allowedAccountIds": []}, ["aws:allowedAccountIds: is empty; give at least one"]),
        ({"allowDestroy": "yes"}, ["allowDestroy: 'yes' is text; give true or false"]),
    ],
)
def test_a_mistake_is_said_where_it_is(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected


def test_production_names_its_account() -> None:
    assert complaints({"aws:allowedAccountIds": REMOVED}, stack="prod") == [
        "aws:allowedAccountIds: prod invariant 'one account': whoever is logged in to another account deploys there; "
        'give the account, like ["123456789012"]'
    ]
    assert settings({"aws:allowedAccountIds": REMOVED}).allowed_account_ids is None


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_a_stack_of_an_account_is_protected_unless_its_file_says_otherwise(stack: str) -> None:
    as_it_is = settings({"environment": stack}, stack)
    assert (as_it_is.protected, as_it_is.disposable) == (True, False)
    let_go = settings({"environment": stack, "allowDestroy": True}, stack)
    assert (let_go.protected, let_go.disposable) == (False, True)
    assert [str(warning) for warning in let_go.warnings if warning.path == "allowDestroy"] == [
        f"allowDestroy: cluster, VPC, KMS keys and model bucket of '{stack}' are not protected, as it should be of a stack "
        "for trying things and before something is deleted or replaced; otherwise remove the key"
    ]


def test_the_engines_text_counts_as_the_value_that_it_stands_for() -> None:
    given = {**config({"allowDestroy": "true"}), "aws:allowedAccountIds": '["123456789012"]'}
    read = load(given, "staging", today=TODAY)
    assert (read.allow_destroy, read.allowed_account_ids) == (True, ("123456789012",))


def test_where_nothing_is_protected_there_is_nothing_to_let_go() -> None:
    changes = {"environment": "local"}
    assert not settings(changes, "local").protected
    assert settings(changes, "local").disposable
    assert complaints({**changes, "allowDestroy": True}, "local") == [
        "allowDestroy: nothing in 'local' is protected; leave the key out"
    ]
