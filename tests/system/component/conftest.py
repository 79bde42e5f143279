"""Brings up each stack once per test session, in a separate moto account; the tests examine the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.paths import ROOT
from tests.system.component.engine.stack_run import STACKS, StackRun, bring_up


@pytest.fixture(scope="session")
def stack_runs() -> Callable[[str], StackRun]:
    """Return the run of a stack; the first call creates it."""
    return cache(lambda stack: bring_up(ROOT, stack))


@pytest.fixture(params=STACKS)
def stack_run(request: pytest.FixtureRequest, stack_runs: Callable[[str], StackRun]) -> StackRun:
    """Return each of the four stacks in turn."""
    return stack_runs(request.param)
