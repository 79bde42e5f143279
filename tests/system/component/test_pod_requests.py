"""The rules for node capacity count the same pods that stacks register, with the same resource requests."""

from __future__ import annotations

import pytest

from spec.charts import CHARTS
from spec.pod_sets import Request
from spec.settings import Settings
from spec.settings.scheduling import pods
from spec.settings.scheduling.add_ons import ADDONS, addons
from spec.settings.scheduling.requests import requested
from tests.pod_requests import WORKLOADS, at, of_objects, paths_of_requests
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import StackRun

RELEASE = "kubernetes:helm.sh/v3:Release"


def registered(up: Recording) -> dict[str, tuple[int | None, Request]]:
    """Return the workloads that the program registers itself or through charts of this repository."""
    objects = [
        {"kind": item.type.rpartition(":")[2], **item.inputs}
        for item in up.registrations
        if item.type.rpartition(":")[2] in WORKLOADS
    ]
    return of_objects(objects)


def counted(settings: Settings) -> dict[str, tuple[int | None, Request]]:
    """Return the same workloads as the rules count them: Triton, and the pods that reserve nodes for it."""
    server, bounds, worker = settings.triton, settings.autoscaling, settings.worker
    size = Request(round(float(server.cpu) * 1000), server.memory_gib * 1024)
    found: dict[str, tuple[int | None, Request]] = {}
    if settings.models.release is not None:
        found[settings.each_fleet[0].release] = (server.replicas, size)
    if bounds is not None and bounds.warm_pods:
        found["triton-warm-blue" if server.rollout == "blue-green" else "triton-warm"] = (bounds.warm_pods, size)
    for one in pods.workers(settings):
        assert worker is not None
        found[one.name] = (one.count if worker.pod_autoscaler == "none" else None, one.request)
    if settings.monitoring is not None and settings.monitoring.parity_image is not None:
        found["triton-parity"] = (1, pods.PARITY_EXPORTER)
    return found


def test_every_pod_that_the_program_registers_is_counted_with_what_it_asks_for(stack_run: StackRun) -> None:
    assert registered(stack_run.up) == counted(stack_run.settings)


def test_every_addon_and_chart_of_a_stack_is_counted(stack_run: StackRun) -> None:
    up, settings = stack_run.up, stack_run.settings
    found = {item.inputs["addonName"] for item in up.of_type("aws:eks/addon:Addon")}
    assert found == set(addons(settings)) <= ADDONS.keys()
    assert {item.inputs["name"] for item in up.of_type(RELEASE)} == {chart.name for chart in settings.installed_charts}


def test_every_request_in_the_values_of_a_chart_is_counted(stack_run: StackRun) -> None:
    """Includes the requests in `helm-values` and the requests that the program computes."""
    releases = stack_run.up.of_type(RELEASE)
    found = {item.inputs["name"]: set(paths_of_requests(item.inputs.get("values") or {})) for item in releases}
    assert found == {name: {one.request for one in CHARTS[name].pods if isinstance(one.request, str)} for name in found}


def test_the_numbers_of_pods_are_those_of_the_registered_values(stack_run: StackRun) -> None:
    by_name = {one.name: one.count for one in pods.on_system_nodes(stack_run.settings)}
    for release in stack_run.up.of_type(RELEASE):
        for one in CHARTS[release.inputs["name"]].pods:
            if isinstance(one.count, str) and not one.count.startswith("monitoring."):
                assert at(release.inputs["values"], one.count) == by_name[one.name], one.name


@pytest.mark.parametrize("part", ["prometheus.prometheusSpec", "alertmanager.alertmanagerSpec"])
def test_so_is_that_of_the_monitoring(stack_run: StackRun, part: str) -> None:
    for release in stack_run.up.of_type(RELEASE):
        if release.inputs["name"] == "kube-prometheus-stack":
            assert stack_run.settings.monitoring is not None
            assert at(release.inputs["values"], f"{part}.replicas") == stack_run.settings.monitoring.replicas


def test_the_proxies_are_counted_as_envoy_gateway_makes_them(stack_run: StackRun) -> None:
    for proxy in stack_run.up.of_type("kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyProxy"):
        deployment = proxy.inputs["spec"]["provider"]["kubernetes"]["envoyDeployment"]
        (envoy,) = pods.envoys(stack_run.settings)
        assert requested(deployment["container"]["resources"]) + envoy.beside == envoy.request
        assert (deployment["replicas"], deployment["strategy"]["rollingUpdate"]["maxSurge"]) == (envoy.count, 1)
