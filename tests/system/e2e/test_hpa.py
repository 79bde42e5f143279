"""`autoscaler: hpa`: a HorizontalPodAutoscaler on the custom metrics API, served by the real prometheus-adapter."""

from __future__ import annotations

import datetime
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_DOWN, Decimal
from typing import Any
from urllib.parse import urlencode

import pytest

from spec.scaling.signal import NEEDED, PENDING, RECORDINGS, Recording, signals
from spec.settings import load_stack_file
from tests.system.e2e import pinned
from tests.system.e2e.conftest import UP_SECONDS, taken_down
from tests.system.e2e.load_summary import ANSWERED, READY
from tests.system.e2e.monitored import Monitored
from tests.system.e2e.sockets import listening
from tests.system.e2e.watched_end import WatchedEnd
from twin.charts.keda import programs as keda
from twin.charts.prometheus_adapter import program as prometheus_adapter
from twin.cluster import quantity
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import TwinHome
from twin.services.release_sources import SLOW_MODEL

# The adapter and Prometheus's operator may have to be built first.
pytestmark = pytest.mark.timeout(5400)
_LOAD_SECONDS = 2400.0
_PATIENCE = 300.0
API = "/apis/custom.metrics.k8s.io/v1beta1"


class Scaled(Monitored):
    """The stack of `make up AUTOSCALING=1`, with a HorizontalPodAutoscaler instead of KEDA."""

    def make(self) -> None:
        done = self.run("up", "--autoscaling", seconds=2 * UP_SECONDS)
        assert done.returncode == 0, done.stdout

    def autoscaler(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get horizontalpodautoscaler triton --namespace triton -o json"))
        return found

    def numbers(self, recording: Recording, model: str) -> list[dict[str, Any]] | None:
        """Return the API's numbers for each pod and a model; None while it has none."""
        selector = urlencode({"metricLabelSelector": f"model={model}"})
        done = self.shell(f"kubectl get --raw '{API}/namespaces/triton/pods/*/{recording.metric}?{selector}'")
        items: list[dict[str, Any]] = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return items or None

    def measured(self, recording: Recording, model: str, pod: str, at: float) -> Decimal | None:
        """Return Prometheus's value in thousandths, as the API does; None before its first recording."""
        query = f'{recording.series}{{namespace="triton",pod="{pod}",model="{model}"}}'
        found = self.ask("query", query=query, time=str(at))["result"]
        return Decimal(found[0]["value"][1]).quantize(Decimal("0.001"), ROUND_DOWN) if found else None

    def pods(self) -> list[str]:
        """Return the names of Triton's pods."""
        return self.kubectl("get pods --namespace triton -o name").split()

    def adapter(self) -> int:
        """Return the adapter's process; 0 while there is none."""
        record = processes.find(self.home, prometheus_adapter.NAME)
        return record.pid if record else 0


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scaled]:
    """Return a stack that is up. Tests must leave it unchanged."""
    with taken_down(Scaled(TwinHome(tmp_path_factory.mktemp("hpa") / "home"))) as twin:
        for key, value in pinned.HPA.items():
            twin.pin(key, value)
        twin.make()
        yield twin


def test_the_adapter_answers_for_custom_metrics_on_this_machine_alone_and_there_is_no_keda(scaled: Scaled) -> None:
    assert {address.rpartition(":")[0] for address in listening(scaled.adapter())} == {"0100007F"}
    registered = json.loads(scaled.kubectl("get apiservices -o json"))["items"]
    services = {i["metadata"]["name"]: i["spec"]["service"] for i in registered if i["spec"].get("service")}
    assert services.keys() == {"v1beta1.custom.metrics.k8s.io"}
    assert services["v1beta1.custom.metrics.k8s.io"]["namespace"] == "prometheus-adapter"
    assert processes.find(scaled.home, keda.OPERATOR) is None
    assert "keda" not in scaled.kubectl("get customresourcedefinitions,namespaces -o name")


def test_the_autoscaler_reads_every_number_that_the_program_gives_it(scaled: Scaled) -> None:
    settings = load_stack_file(stack_files.write_merged(scaled.home, "local"))
    wanted = [signal.pods_metric()["pods"] for signal in signals(settings)]
    assert {item["metric"]["name"] for item in wanted} == {recording.metric for recording in RECORDINGS}

    def read() -> list[dict[str, Any]] | None:
        found = scaled.autoscaler().get("status", {}).get("currentMetrics") or []
        return found if len(found) == len(wanted) and all(item["type"] == "Pods" for item in found) else None

    current = scaled.until(read, "the autoscaler to read every number", _PATIENCE)
    assert [item["pods"]["metric"] for item in current] == [item["metric"] for item in wanted]
    conditions = {c["type"]: (c["status"], c["reason"]) for c in scaled.autoscaler()["status"]["conditions"]}
    assert conditions["ScalingActive"] == ("True", "ValidMetricFound")


def test_pods_follow_a_load_by_what_prometheus_has_of_each(scaled: Scaled) -> None:
    with ThreadPoolExecutor(1) as loads:
        load = loads.submit(scaled.run, "load", "--rate", "30", "--seconds", "240", seconds=_LOAD_SECONDS)
        for recording in (NEEDED, PENDING):
            for pod, number, before, after in _compared(scaled, recording):
                assert number in (before, after), f"{recording.metric} of {pod}"
        done = load.result()
    assert done.returncode == 0, done.stdout
    answered, pods = ANSWERED.search(done.stdout), READY.search(done.stdout)
    assert answered is not None and pods is not None, done.stdout
    assert answered[1] == answered[2]
    assert pods[1] == pods[3] == "1" and int(pods[2]) > 1, done.stdout
    assert scaled.autoscaler()["spec"]["minReplicas"] == 1


def test_an_adapter_that_is_killed_comes_back_and_answers_and_costs_no_request_and_no_pod(scaled: Scaled) -> None:
    before, pods = scaled.adapter(), set(scaled.pods())
    with WatchedEnd(scaled.servers().cluster()) as clients:
        scaled.until(lambda: clients.outcomes["answered"] > 0, "the clients to be answered")
        os.kill(before, signal.SIGKILL)
        scaled.until(lambda: scaled.adapter() not in (0, before), "the adapter to be started again")
        scaled.until(lambda: scaled.numbers(NEEDED, SLOW_MODEL), "the adapter to answer again", _PATIENCE)
    assert clients.outcomes.keys() <= {"answered", "shed"}
    assert pods <= set(scaled.pods())


def test_without_the_release_nothing_of_it_is_left(scaled: Scaled) -> None:
    target = "--target '**prometheus-adapter**' --target-dependents"
    done = scaled.shell(f"pulumi destroy --yes --stack local --non-interactive {target}")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert scaled.adapter() == 0
        left = scaled.kubectl("get apiservices,clusterroles,clusterrolebindings,namespaces -o name").splitlines()
        assert [name for name in left if "prometheus-adapter" in name or "custom.metrics" in name] == []
        roles = scaled.kubectl("get rolebindings --namespace kube-system -o name")
        assert "metrics-auth-reader" not in roles
        assert "triton" not in scaled.kubectl("get horizontalpodautoscalers --all-namespaces -o name")
    finally:
        scaled.make()
    assert scaled.adapter() != 0


def _compared(scaled: Scaled, recording: Recording) -> list[tuple[str, Decimal, Decimal | None, Decimal | None]]:
    """Return, for each of several loaded pods, the API's value, and Prometheus's at the start and end of that second."""
    items = scaled.until(lambda: _of_several(scaled, recording), f"{recording.metric} of several pods", _PATIENCE)
    found = []
    for item in items:
        pod, at = item["describedObject"]["name"], datetime.datetime.fromisoformat(item["timestamp"]).timestamp()
        before, after = (scaled.measured(recording, SLOW_MODEL, pod, at + seconds) for seconds in (0, 1))
        found.append((pod, quantity.parse(item["value"]), before, after))
    return found


def _of_several(scaled: Scaled, recording: Recording) -> list[dict[str, Any]] | None:
    items = scaled.numbers(recording, SLOW_MODEL) or []
    return items if len(items) > 1 else None
