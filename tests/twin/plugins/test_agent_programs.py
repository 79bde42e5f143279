"""A release waits for the agent's status of its programs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from twin.cluster.release_marks import AGENT_PATH, CHARTS, FAILURE, FINALIZER, READY, config_map_path
from twin.plugins.agent_programs import AgentPrograms
from twin.plugins.errors import PluginError

RELEASE = config_map_path("keda", "keda")


class Cluster:
    """A cluster whose content advances one step at each look at the release."""

    def __init__(self, *steps: dict[str, Any] | None, agent: str | None = None) -> None:
        self.steps = list(steps)
        self.agent = agent

    def find(self, path: str) -> dict[str, Any] | None:
        if path == AGENT_PATH:
            return None if self.agent is None else {"data": {CHARTS: self.agent}}
        assert path == RELEASE
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


def programs(cluster: Cluster, *, cancelled: bool = False) -> AgentPrograms:
    event = threading.Event()
    if cancelled:
        event.set()
    return AgentPrograms(cluster, event)  # type: ignore[arg-type]


def release(finalizer: str = FINALIZER, **annotations: str) -> dict[str, Any]:
    names = {"ready": READY, "failure": FAILURE}
    said = {names[name]: text for name, text in annotations.items()}
    return {"metadata": {"annotations": said, "finalizers": [finalizer]}}


def test_only_an_agent_with_programs_for_the_chart_is_waited_for() -> None:
    assert not programs(Cluster(None)).stand_for("keda")
    assert programs(Cluster(None, agent="kube-prometheus-stack keda")).stand_for("keda")
    assert not programs(Cluster(None, agent="kube-prometheus-stack keda")).stand_for("keda-http")


def test_what_was_said_of_an_earlier_installation_does_not_count() -> None:
    steps = (release(ready="one"), release(failure="one it broke"), release(ready="two"))
    cluster = Cluster(*steps, release(failure="two is not looked at any more"))
    programs(cluster).wait_ready("keda", "keda", "two", 20)
    assert len(cluster.steps) == 1


def test_a_failure_is_the_releases() -> None:
    with pytest.raises(PluginError, match=r"^release keda/keda: it is not built$"):
        programs(Cluster(release(failure="two it is not built"))).wait_ready("keda", "keda", "two", 20)


def test_an_agent_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with pytest.raises(PluginError, match=r"did not say within 0 s .* `make up` starts an agent"):
        programs(Cluster(release())).wait_ready("keda", "keda", "two", 0)
    with pytest.raises(PluginError, match="did not end its programs within 0 s"):
        programs(Cluster(release())).wait_gone("keda", "keda", 0)


def test_ctrl_c_ends_the_wait() -> None:
    with pytest.raises(PluginError, match="cancelled"):
        programs(Cluster(release()), cancelled=True).wait_ready("keda", "keda", "two", 20)


def test_a_deletion_waits_for_the_agents_finalizer_alone() -> None:
    programs(Cluster(release(), release("somebody/else"))).wait_gone("keda", "keda", 20)
    programs(Cluster(release(), None)).wait_gone("keda", "keda", 20)
