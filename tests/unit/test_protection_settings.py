"""Which account a stack is for, and whether what lasts may be deleted."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings import load
from tests.unit.stack_config import REMOVED, TODAY, complaints, config, settings


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


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_staging_and_prod_are_protected_unless_their_file_says_otherwise(stack: str) -> None:
    assert settings(stack=stack).protected
    let_go = settings({"allowDestroy": True}, stack=stack)
    assert not let_go.protected
    assert [str(warning) for warning in let_go.warnings if warning.path == "allowDestroy"] == [
        f"allowDestroy: cluster, VPC, KMS keys and model bucket of '{stack}' are not protected; remove the key as soon as "
        "what had to be deleted or replaced is"
    ]


def test_the_engines_text_counts_as_the_value_that_it_stands_for() -> None:
    given = {**config({"allowDestroy": "true"}), "aws:allowedAccountIds": '["123456789012"]'}
    read = load(given, "staging", today=TODAY)
    assert (read.allow_destroy, read.allowed_account_ids) == (True, ("123456789012",))


@pytest.mark.parametrize("stack", ["local", "dev"])
def test_where_nothing_is_protected_there_is_nothing_to_let_go(stack: str) -> None:
    changes = {"environment": stack}
    assert not settings(changes, stack).protected
    assert complaints({**changes, "allowDestroy": True}, stack) == [
        f"allowDestroy: nothing in '{stack}' is protected; leave the key out"
    ]
