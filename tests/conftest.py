"""What every test may rely on, and which tests share a worker of pytest-xdist."""

import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.aws_environment import service_models_read_once

# By itself hypothesis fails an example that takes 200 ms, and examples that come slowly: both say how busy the machine is.
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")


class _Scheduling(LoadScopeScheduling):
    """`--dist loadscope`, with tests/component as one scope: each worker would make the runs of stacks that it looks at."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/component" if nodeid.startswith("tests/component/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session", autouse=True)
def _service_models() -> Iterator[None]:
    with service_models_read_once():
        yield


@pytest.fixture(autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, children inherit that, and Ctrl-C could not be tested in them."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
