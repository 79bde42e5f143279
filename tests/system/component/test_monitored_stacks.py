"""The monitored stacks, and the dependencies of their monitoring."""

from __future__ import annotations

import json

from tests.system.component.engine.stack_run import StackRun

RELEASE = "kubernetes:helm.sh/v3:Release"


def test_stacks_are_monitored_where_they_say_so(stack_run: StackRun) -> None:
    up = stack_run.up
    releases = {item.checked["name"] for item in up.of_type(RELEASE)}
    monitored = stack_run.settings.monitoring is not None
    assert monitored is (stack_run.stack in ("dev", "staging", "prod"))
    assert ({"kube-prometheus-stack", "dcgm-exporter"} <= releases) is monitored
    # Triton and its parity exporter; Envoy; workers.
    monitors = {"local": 0, "dev": 2, "staging": 4, "prod": 4}[stack_run.stack]
    assert len(up.of_type("kubernetes:monitoring.coreos.com/v1:PodMonitor")) == monitors


def test_the_exporter_of_the_gpus_waits_for_the_kind_of_its_monitor(stack_run: StackRun) -> None:
    if stack_run.settings.monitoring is None:
        return
    up = stack_run.up
    assert up.one(RELEASE, "monitoring-release").urn in up.one("triton:platform:GpuMetrics").depends_on
    assert up.one(RELEASE, "gpu-metrics-release").checked["namespace"] == "monitoring"


def test_charts_that_bring_monitors_wait_for_their_kind(stack_run: StackRun) -> None:
    """A cluster without this kind refuses such charts."""
    up = stack_run.up
    releases = [item for item in up.of_type(RELEASE) if "serviceMonitor" in json.dumps(item.checked["values"])]
    bringing = [item for item in releases if item.name != "monitoring-release"]
    parents = {item.urn: item for item in up.registrations}
    if stack_run.settings.monitoring is not None:
        release = up.one(RELEASE, "monitoring-release").urn
        assert [item.name for item in bringing if release not in {*item.depends_on, *parents[item.parent].depends_on}] == []
