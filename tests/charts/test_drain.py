"""Pod shutdown: its time limits fit together (docs/drain.md)."""

import pytest

from tests.charts import rendering


def test_the_times_of_a_stop_are_computed_together() -> None:
    drain = {"preStopSeconds": 40, "longestRequestSeconds": 90, "longestBatchSeconds": 20}
    pod = rendering.pod({"drain": drain})
    (container,) = pod["containers"]
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 40}}}
    assert rendering.flag(container, "--exit-timeout-secs") == "95"
    assert rendering.flag(container, "--grpc-max-connection-age-grace") == "90000"
    assert pod["terminationGracePeriodSeconds"] == 40 + 95 + 20 + 10


def test_no_wait_renders_no_hook() -> None:
    pod = rendering.pod({"drain": {"preStopSeconds": 0}})
    assert "lifecycle" not in pod["containers"][0]
    assert pod["terminationGracePeriodSeconds"] == 0 + 65 + 15 + 10


@pytest.mark.parametrize(
    ("environment", "pre_stop", "exit_timeout", "grace"),
    [("local", 2, 15, 32), ("dev", 10, 35, 70), ("staging", 30, 65, 120), ("prod", 30, 65, 120)],
)
def test_the_drain_of_each_environment(environment: str, pre_stop: int, exit_timeout: int, grace: int) -> None:
    pod = rendering.pod(environment=environment)
    (container,) = pod["containers"]
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] == pre_stop
    assert rendering.flag(container, "--exit-timeout-secs") == str(exit_timeout)
    assert pod["terminationGracePeriodSeconds"] == grace


def test_a_sigterm_during_the_load_reaches_the_server() -> None:
    assert rendering.pod()["shareProcessNamespace"] is True
