"""Prometheus as the program installs it: prometheus-operator's configuration from our monitors and rules, on real pods."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.platform.dashboards import dashboards
from spec.scaling.signal import signals
from spec.settings import load_stack_file
from tests.modelctl.repository.test_engines import VLLM
from tests.system.e2e import pinned
from tests.system.e2e.conftest import Twin, taken_down
from tests.system.e2e.monitored import Monitored
from twin.cluster.pod_addresses import loopback
from twin.commands import inference
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import TwinHome

WITHOUT_A_SOURCE = {
    "Percentiles": "histograms, which server 2.51 has not",
    "Memory": "the kubelet and kube-state-metrics",
    "Restarts": "kube-state-metrics",
}
"""The panels of the inference dashboard that stay empty on the twin, with the missing data."""
TRITON, PARITY = "podMonitor/monitoring/triton/0", "podMonitor/monitoring/triton-parity/0"
OPERATOR = "prometheus-operator"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Return a twin that is up. Tests must leave it unchanged."""
    with _up(tmp_path_factory.mktemp("monitored")) as twin:
        yield twin


@pytest.fixture
def own_monitored(tmp_path: Path) -> Iterator[Monitored]:
    """Return a twin for one test."""
    with _up(tmp_path) as twin:
        yield twin


def test_the_status_says_where_prometheus_is(monitored: Monitored) -> None:
    endpoints = json.loads(monitored.run("status", "--json").stdout)["endpoints"]
    assert endpoints["Prometheus"] == monitored.url
    assert httpx.get(f"{monitored.url}/-/ready").status_code == 200


def test_tritons_pods_are_scraped_as_the_programs_monitor_says(monitored: Monitored) -> None:
    (pod,) = [pod for pod in monitored.servers().cluster().pods() if pod.namespace == "triton"]
    (target,) = monitored.until(
        lambda: [t for t in monitored.targets(TRITON) if t["health"] == "up"], "Triton's target to be up"
    )
    assert target["scrapeUrl"] == f"http://{pod.listens}:8002/metrics"
    assert (target["scrapeInterval"], target["scrapeTimeout"]) == ("5s", "5s")
    labels = target["labels"]
    assert (labels["job"], labels["namespace"], labels["pod"]) == ("triton", "triton", pod.name)
    assert labels["instance"] == f"{pod.address}:8002"


def test_what_the_scaler_asks_for_is_recorded(monitored: Monitored) -> None:
    settings = load_stack_file(stack_files.write_merged(monitored.home, "local"))
    (address,) = monitored.servers().cluster().service_addresses("triton", "triton")
    inference.infer(address)
    wanted = [signal.query for signal in signals(settings)]
    assert len(wanted) == 4
    for query in wanted:
        (element,) = monitored.until(lambda query=query: monitored.query(query), f"{query} to have a value")
        assert float(element["value"][1]) >= 0


def test_prometheus_refuses_no_query_of_a_dashboard_and_has_data_for_the_inference_dashboard(monitored: Monitored) -> None:
    boards = dashboards(load_stack_file(stack_files.write_merged(monitored.home, "local")))
    blank = {board["title"]: monitored.blank(board) for board in boards}
    assert set(blank) == {"Triton: inference", "Triton: scaling", "Triton: GPUs"}
    (inferences,) = (board for board in boards if board["title"] == "Triton: inference")
    (address,) = monitored.servers().cluster().service_addresses("triton", "triton")

    def filled() -> bool:
        inference.infer(address)  # a rate needs a counter that moves
        return monitored.blank(inferences) <= WITHOUT_A_SOURCE.keys()

    monitored.until(filled, f"every panel but {', '.join(WITHOUT_A_SOURCE)} to have data", 180)
    assert monitored.blank(inferences) == WITHOUT_A_SOURCE.keys()


def test_every_rule_of_the_program_is_evaluated_without_an_error(monitored: Monitored) -> None:
    def evaluated() -> list[dict[str, Any]] | None:
        rules = [rule for group in monitored.ask("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = monitored.until(evaluated, "every rule to have been evaluated")
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert {"pod_model:triton_pending_requests:sum", "TritonDown", "TritonConfigDiffers"} <= {r["name"] for r in rules}


def test_a_pod_that_is_only_simulated_is_a_target_that_is_down_and_raises_no_alert(monitored: Monitored) -> None:
    container = {
        "name": "parity",
        "image": "example.com/modelctl:1",
        "ports": [{"name": "metrics", "containerPort": 9000}],
        "securityContext": RESTRICTED,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "parity", "namespace": "triton", "labels": {"app.kubernetes.io/name": "triton-parity"}},
        "spec": {"containers": [container]},
    }
    monitored.kubectl(f"apply -f - <<< '{json.dumps(pod)}'")
    try:
        (target,) = monitored.until(
            lambda: [t for t in monitored.targets(PARITY) if t["health"] == "down"], "the simulated pod's target to be down"
        )
        assert "connection refused" in target["lastError"]
        assert target["scrapeUrl"].startswith("http://127.244.")
        assert [alert for alert in monitored.ask("alerts")["alerts"] if alert["state"] == "firing"] == []
    finally:
        monitored.kubectl("delete pod parity --namespace triton --wait=false")


def test_what_the_selectors_do_not_select_is_not_scraped(monitored: Monitored) -> None:
    (prometheus,) = json.loads(monitored.kubectl("get prometheuses --namespace monitoring -o json"))["items"]
    patch = f"patch prometheus {prometheus['metadata']['name']} --namespace monitoring --type merge --patch"
    assert prometheus["spec"]["podMonitorSelector"] == {}
    monitored.until(lambda: TRITON in monitored.ask("scrape_pools")["scrapePools"], "Triton's monitor to be taken")

    def without_triton() -> bool:
        pools = monitored.ask("scrape_pools")["scrapePools"]
        return PARITY in pools and TRITON not in pools

    only_parity = {"spec": {"podMonitorSelector": {"matchLabels": {"app.kubernetes.io/name": "triton-parity"}}}}
    try:
        monitored.kubectl(f"{patch} '{json.dumps(only_parity)}'")
        monitored.until(without_triton, "Triton's monitor not to be taken")
    finally:
        monitored.kubectl(f"{patch} '{json.dumps({'spec': {'podMonitorSelector': {'matchLabels': None}}})}'")
    monitored.until(lambda: TRITON in monitored.ask("scrape_pools")["scrapePools"], "Triton's monitor to be taken again")


def test_a_prometheus_that_is_killed_comes_back_with_its_samples(monitored: Monitored) -> None:
    monitored.until(lambda: monitored.query('up{job="triton"}'), "a sample")
    before, url, restarts = time.time(), monitored.url, _restarts(monitored)
    pid = _pid(monitored, "prometheus")
    os.kill(pid, signal.SIGKILL)
    monitored.until(lambda: _pid(monitored, "prometheus") not in (0, pid), "Prometheus to be started again")
    monitored.until(lambda: httpx.get(f"{url}/-/ready").status_code == 200, "Prometheus to be ready again")
    assert monitored.ask("query", query='up{job="triton"}', time=str(before))["result"]
    monitored.until(lambda: _restarts(monitored) == restarts + 1, "the restart to be counted", 30)


def test_an_operator_that_is_killed_comes_back_and_reads_what_changed(monitored: Monitored) -> None:
    record = processes.find(monitored.home, OPERATOR)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    rule = {"record": "late", "expr": "vector(42)"}
    manifest = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"groups": [{"name": "late", "interval": "1s", "rules": [rule]}]},
    }
    monitored.kubectl(f"apply -f - <<< '{json.dumps(manifest)}'")
    try:
        (element,) = monitored.until(lambda: monitored.query("late"), "the new rule to be evaluated")
        assert element["value"][1] == "42"
    finally:
        monitored.kubectl("delete prometheusrule late --namespace default")
    again = processes.find(monitored.home, OPERATOR)
    assert again is not None and again.pid != record.pid


def test_a_new_agent_takes_over_what_runs(monitored: Monitored) -> None:
    agent = processes.find(monitored.home, "agent")
    assert agent is not None
    before = (_pid(monitored, "prometheus"), _pid(monitored, "config-reloader"))
    os.kill(agent.pid, signal.SIGKILL)
    monitored.up()
    assert (_pid(monitored, "prometheus"), _pid(monitored, "config-reloader")) == before
    monitored.until(lambda: httpx.get(f"{monitored.url}/-/ready").status_code == 200, "Prometheus to be ready")


def test_destroy_leaves_nothing_of_it_in_the_cluster_nor_on_the_machine(own_monitored: Monitored) -> None:
    monitored = own_monitored
    done = monitored.shell("pulumi destroy --yes --stack local --non-interactive")
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes.find(monitored.home, OPERATOR) is None
    assert [r.name for r in processes.records(monitored.home) if r.name.startswith("pod-")] == []
    kinds = "clusterroles,clusterrolebindings,services,serviceaccounts,prometheuses,statefulsets"
    assert monitored.kubectl(f"get {kinds} --all-namespaces -l twin.triton-eks/chart -o name") == ""


# A separate twin, and a second `pulumi up` on it.
@pytest.mark.timeout(1200)
def test_a_language_model_streams_and_is_scaled_and_watched_by_what_its_backend_exports(
    own_monitored: Monitored, tmp_path: Path
) -> None:
    monitored = own_monitored
    monitored.pin("triton-eks:models.serving", {"chat": pinned.CHAT})
    stack_files.write_merged(monitored.home, "local")
    model = tmp_path / "models" / "chat"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(VLLM)
    (model / "1" / "model.json").write_text('{"model": "facebook/opt-125m", "max_num_seqs": 2}')
    bucket = monitored.servers().engine().outputs("local")["modelBucket"]
    stacks, pins = monitored.home.path / "project" / "stacks", stack_files.pins_file(monitored.home, "local")
    release = f"python -m modelctl release {model.parent} --bucket {bucket} --stacks {stacks} --pin {pins}"
    for command in (release, "pulumi up --yes --skip-preview --stack local --non-interactive"):
        done = monitored.shell(command)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def words(count: int) -> list[str]:
        """Return the words of an answer, from any pod behind the Service."""
        address = monitored.servers().cluster().service_addresses("triton", "triton")[0]
        url = f"http://{loopback(address)}:8000/v2/models/chat/generate_stream"
        body = {"text_input": "to be", "stream": True, "parameters": {"max_tokens": count}}
        with httpx.stream("POST", url, json=body, timeout=60) as answer:
            lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
        return [json.loads(line).get("text_output", line) for line in lines]

    monitored.until(lambda: words(3) == [" to", " be", " to"], "the language model to be served")
    settings = load_stack_file(stack_files.write_merged(monitored.home, "local"))
    (board,) = (board for board in dashboards(settings) if board["title"] == "Triton: inference")
    panels = {"Time to first token", "Time per token", "Tokens", "Requests at a time"}
    queries = [signal.query for signal in signals(settings)]
    assert len(queries) == 2

    def measured() -> bool:
        with ThreadPoolExecutor(4) as pool:  # two of them wait
            assert list(pool.map(lambda _: len(words(100)), range(4))) == [100] * 4
        values = [float(found[0]["value"][1]) if (found := monitored.query(query)) else 0 for query in queries]
        return min(values) > 0 and not monitored.blank(board) & panels

    monitored.until(measured, "requests in flight and waiting to be seen, and each panel to have data", 180)


@contextmanager
def _up(folder: Path) -> Iterator[Monitored]:
    with taken_down(Monitored(TwinHome(folder / "home"))) as twin:
        for key, value in pinned.MONITORING.items():
            twin.pin(key, value)
        twin.up()
        yield twin


def _restarts(twin: Monitored) -> int:
    return sum(pod.restarts for pod in twin.servers().cluster().pods() if pod.namespace == "monitoring")


def _pid(twin: Twin, container: str) -> int:
    """Return the process of a container of Prometheus's pod; 0 while it has none."""
    records = (r for r in processes.records(twin.home) if r.name.startswith("pod-") and r.name[41:] == container)
    return next((record.pid for record in records), 0)
