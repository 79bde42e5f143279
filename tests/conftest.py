"""Fixtures and settings of all tests, and their assignment to workers of pytest-xdist."""

import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from console import loopback
from tests.aws_environment import service_models_read_once, ways_through_moto_found_once
from tests.golden import OPTION, Golden, may_update
from tests.paths import ROOT

# By default, hypothesis fails an example that takes 200 ms, or a second to create: that depends on the machine. `make
# test-properties` runs `thorough`'s number of examples, with --hypothesis-profile.
_ANY_MACHINE = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("fast", _ANY_MACHINE, max_examples=25)
hypothesis.settings.register_profile("thorough", _ANY_MACHINE, max_examples=500)
hypothesis.settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write golden files and snapshots, and fail: review what is written")


def pytest_configure(config: pytest.Config) -> None:
    may_update(config.getoption(OPTION), os.environ)
    os.environ.update(loopback.direct(os.environ))  # a proxy is for the internet, never for test servers
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # Like Ctrl-C: fixtures clean up, including a running twin.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Collect garbage less often, and exclude imported modules.

    The models of AWS's services and Pulumi's classes are millions of permanent objects. Traversing them repeatedly took a
    quarter of the tests' time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return a comparer of texts with the reviewed files."""
    return Golden(update=request.config.getoption(OPTION))


class _Scheduling(LoadScopeScheduling):
    """`--dist loadscope` with some folders as one scope: shared objects are created once, not per worker.

    In tests/system/component these are the stacks' runs; in tests/system/e2e it is a running twin.
    """

    def _split_scope(self, nodeid: str) -> str:
        for folder in ("tests/system/component/", "tests/system/e2e/"):
            if nodeid.startswith(folder):
                return folder
        return super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session", autouse=True)
def _service_models() -> Iterator[None]:
    with service_models_read_once(), ways_through_moto_found_once():
        yield


@pytest.fixture(scope="module")
def clients() -> Iterator[Any]:
    """Yield an empty AWS account, one per module: loading the managed policies takes a second."""
    # Imported here: moto takes a second, and most tests do not need it.
    from tests.system.component.engine.account import fresh_account
    from twin.aws.base.clients import Clients

    with fresh_account():
        yield Clients("us-west-2")


@pytest.fixture
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the project's directory, where the engine starts the program: its paths are relative to it."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """Restore SIGINT: shells start background jobs with SIGINT ignored, children inherit that, and tests of Ctrl-C would
    fail.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
