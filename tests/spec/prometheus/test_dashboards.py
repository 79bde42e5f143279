"""The dashboards: Grafana's requirements, and queries of exported metrics."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from infra.platform.dashboards import Dashboard, dashboards
from spec.names import TRITON_NAMESPACE
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.boards import ALL, BUILT_IN, boards, panels, queries, read_by_dashboards
from tests.spec.prometheus.promql import metrics
from tests.spec.prometheus.stacks import SERVING, rules, settings
from tests.spec.prometheus.test_metric_names import known

TITLES = ["Triton: inference", "Triton: GPUs", "Triton: scaling"]
UNITS = {"reqps", "percentunit", "short", "ms", "µs", "s", "watt", "celsius", "mbytes"}
"""Units from Grafana's list (its documentation, "Standard options"); it prints an unknown one after the number."""


@pytest.fixture(params=[(stack, title) for stack in ALL for title in TITLES], ids=str)
def board(request: pytest.FixtureRequest) -> Dashboard:
    stack, title = request.param
    return boards(stack)[title]


@pytest.mark.parametrize("stack", ALL)
def test_every_stack_has_these_dashboards(stack: str) -> None:
    assert list(boards(stack)) == TITLES


def test_addresses_are_unique_and_short_enough_for_grafana() -> None:
    ids = [board["uid"] for board in boards("prod").values()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]{1,40}", uid) for uid in ids)


def test_a_dashboard_is_text_that_fits_a_config_map(board: Dashboard) -> None:
    assert json.loads(json.dumps(board)) == board
    assert len(json.dumps(board)) < 1024**2 / 2


def test_it_has_what_grafana_reads_on_import(board: Dashboard) -> None:
    assert board["schemaVersion"] == 39
    assert "id" not in board  # Grafana sets it; the uid is ours
    assert board["tags"] == ["triton"]
    ids = [panel["id"] for panel in board["panels"]]
    assert ids == list(range(1, len(ids) + 1))


def test_every_query_goes_to_the_data_source_that_people_choose(board: Dashboard) -> None:
    source, *_ = board["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    used = [panel["datasource"] for panel in panels(board)]
    used += [target["datasource"] for panel in panels(board) for target in panel["targets"]]
    used += [variable["datasource"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    assert used == [chosen] * len(used)


def test_every_variable_in_a_query_is_one_of_the_dashboard_or_of_grafana(board: Dashboard) -> None:
    # `$1` is a group of label_replace: Grafana has no variable of that name, and does not replace it.
    used = {name for query in map(json.dumps, panels(board)) for name in re.findall(r"\$\{?([A-Za-z_]\w*)", query)}
    assert used <= {variable["name"] for variable in board["templating"]["list"]} | BUILT_IN.keys()


def test_queries_of_a_panel_are_told_apart(board: Dashboard) -> None:
    for panel in panels(board):
        references = [target["refId"] for target in panel["targets"]]
        assert references == [chr(ord("A") + index) for index in range(len(references))]
        assert all(target["instant"] is not target["range"] for target in panel["targets"])


def test_panels_fill_the_width_and_lie_on_nothing(board: Dashboard) -> None:
    taken: Counter[tuple[int, int]] = Counter()
    for panel in board["panels"]:
        at = panel["gridPos"]
        taken.update(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
    assert set(taken.values()) == {1}
    bottom = max(y for _, y in taken)
    assert set(taken) == set(itertools.product(range(24), range(bottom + 1)))


def test_every_panel_says_what_it_shows_and_in_which_unit(board: Dashboard) -> None:
    titles = [(panel["title"], panel["targets"][0]["expr"]) for panel in panels(board)]
    assert len(set(titles)) == len(titles)
    assert all(panel["description"].endswith(".") for panel in panels(board))
    units = {panel["fieldConfig"]["defaults"].get("unit") for panel in panels(board) if panel["type"] != "table"}
    assert units <= UNITS


def test_every_metric_in_a_dashboard_is_exported_by_somebody() -> None:
    recordings = {rule["record"] for stack in ALL for rule in rules(stack) if "record" in rule}
    assert sorted(name for name in read_by_dashboards() - recordings if not known(name)) == []


@pytest.mark.parametrize("stack", ALL)
def test_recordings_that_a_dashboard_reads_are_recorded_in_its_stack(stack: str) -> None:
    recorded = {rule["record"] for rule in rules(stack) if "record" in rule}
    read = {name for board in boards(stack).values() for query in queries(board) for name in metrics(query)}
    # vLLM's metric names contain colons.
    assert sorted(name for name in read if ":" in name and not name.startswith("vllm:") and name not in recorded) == []


def test_only_series_of_tritons_namespace_are_shown_where_a_metric_has_one(board: Dashboard) -> None:
    # Nodes have no namespace, and the GPU exporter intentionally shows other pods, because they use the same GPUs.
    named = [(name, found) for query in queries(board) for name, found in re.findall(r"\b(\w+(?::\w+)*)(\{[^}]*\})", query)]
    elsewhere = [name for name, matchers in named if f'namespace="{TRITON_NAMESPACE}"' not in matchers]
    # Envoy has its own namespace; its routes are in Triton's.
    envoys = {name for name in elsewhere if name.startswith("envoy_")}
    assert set(elsewhere) - envoys <= {"kube_node_labels"}
    routes = re.compile(r'envoy_cluster_name=~"(http|grpc|\(http\|grpc\))route/triton/')
    assert all(routes.search(found) for name, found in named if name in envoys)


@pytest.mark.parametrize(
    "subject",
    [
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_queue_duration_us",
        "nv_inference_compute_infer_duration_us",
        "nv_inference_exec_count",
        "pod_model:triton_pending_requests:sum",
        "pod_model:triton_busy_instances:rate1m",
        "nv_inference_first_response_histogram_ms_bucket",
        "nv_gpu_utilization",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "kube_horizontalpodautoscaler_status_desired_replicas",
        "kube_pod_status_scheduled_time",
    ],
)
def test_a_subject_that_people_look_for_is_shown(subject: str) -> None:
    assert subject in {name for board in boards("prod").values() for query in queries(board) for name in metrics(query)}


def test_failures_are_shown_by_reason_and_versions_by_pod() -> None:
    shown = " ".join(queries(boards("prod")["Triton: inference"]))
    assert "by (model, reason) (rate(nv_inference_request_failure" in shown
    assert "count by (pod, model, version) (nv_inference_pending_request_count" in shown


def test_a_stack_without_histograms_or_cache_has_no_panels_that_stay_empty() -> None:
    titles = [panel["title"] for panel in panels(boards("local")["Triton: inference"])]
    assert "Slower than the SLO" not in titles
    assert "Answered from the cache" not in titles
    prod = settings("prod")
    cached = prod.model_copy(update={"triton": prod.triton.model_copy(update={"response_cache_mib": 64})})
    titles = [panel["title"] for panel in panels(dashboards(cached)[0])]
    assert {"Slower than the SLO", "Answered from the cache"} <= set(titles)


def test_an_slo_of_p99_is_shown_beside_that_of_p95_where_a_model_has_one() -> None:
    def asked(stack: str) -> list[str]:
        (panel,) = [panel for panel in panels(boards(stack)["Triton: inference"]) if panel["title"] == "Slower than the SLO"]
        return [target["legendFormat"] for target in panel["targets"]]

    assert asked("prod") == ["{{model}}", "allowed"]
    assert asked(SERVING) == ["{{model}}", "allowed", "{{model}} p99", "allowed p99"]


@pytest.mark.timeout(1800)
def test_prometheus_understands_every_query(promtool: Path, tmp_path: Path) -> None:
    distinct = sorted({query for stack in ALL for board in boards(stack).values() for query in queries(board)})
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(distinct)]
    done = tool.check(promtool, [{"name": "dashboards", "rules": recorded}], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
