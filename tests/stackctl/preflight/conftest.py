"""A moto account, and the stack for preflight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.stub import Stubber

from stackctl.account.guard import caller
from stackctl.account.read_only import Readers
from stackctl.preflight.checks.check import Subject
from stackctl.preflight.operations import OPERATIONS
from tests.spec.stack_config import settings

REGION = "us-west-2"


@pytest.fixture
def subject(account: str) -> Callable[..., Subject]:
    """Return a factory of the staging stack with changes (`settings` of tests.spec.stack_config), and the account."""

    def make(changes: dict[str, Any] | None = None, stack: str = "staging") -> Subject:
        readers = Readers(REGION, OPERATIONS)
        return Subject(settings(changes, stack), readers, caller(readers))

    return make


@pytest.fixture
def answers() -> Iterator[Callable[..., Stubber]]:
    """Yield `answers(subject, "eks")`, which scripts that client's calls, because moto lacks the operation.

    Parameters and answers are checked against botocore's model of the service; every answer must be requested.
    """
    stubbers: list[Stubber] = []

    def begin(subject: Subject, service: str, region: str | None = None) -> Stubber:
        stubber = Stubber(subject.readers(service, region))
        stubber.activate()
        stubbers.append(stubber)
        return stubber

    yield begin
    for stubber in stubbers:
        stubber.deactivate()
        stubber.assert_no_pending_responses()
