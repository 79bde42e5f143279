"""Each stack is brought up once per test session, in a moto account of its own, and looked at from then on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.paths import ROOT
from tests.system.component.engine.stack_run import STACKS, StackRun, bring_up


@pytest.fixture(scope="session")
def stack_runs() -> Callable[[str], StackRun]:
    """The run of a stack, made when it is first asked for."""
    return cache(lambda stack: bring_up(ROOT, stack))


@pytest.fixture(params=STACKS)
def stack_run(request: pytest.FixtureRequest, stack_runs: Callable[[str], StackRun]) -> StackRun:
    """Each of the four stacks in turn."""
    return stack_runs(request.param)
