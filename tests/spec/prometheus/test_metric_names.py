"""Every metric in a rule has an exporter: no alert uses an invented name."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from modelctl.rollout import exporter
from spec.prometheus import gateway
from tests.spec.prometheus.boards import read_by_dashboards
from tests.spec.prometheus.promql import metrics
from tests.spec.prometheus.stacks import BEHIND, SERVING, STACKS, rules

HERE = Path(__file__).parent
HISTOGRAM_SUFFIXES = ("_bucket", "_sum", "_count")


@cache
def recorded() -> set[str]:
    """Return the names in the real server's scrapes."""
    lines = [line for path in HERE.glob("recorded/*.prom") for line in path.read_text().splitlines()]
    return {re.split(r"[ {]", line, maxsplit=1)[0] for line in lines if not line.startswith("#")}


@cache
def elsewhere() -> dict[str, str]:
    """Return names that only other programs export, with their sources."""
    listed: dict[str, dict[str, str]] = yaml.safe_load((HERE / "elsewhere.yaml").read_text())
    return {name: source for names in listed.values() for name, source in names.items()}


def family(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in HISTOGRAM_SUFFIXES if name.endswith(suffix)), name)


def known(name: str) -> bool:
    return name in recorded() or {name, family(name)} & elsewhere().keys() != set()


def read_by_rules() -> set[str]:
    """Return the metrics that all stacks' rules read, without their own recordings."""
    every = [rule for stack in [*STACKS, SERVING, BEHIND] for rule in rules(stack)]
    return {name for rule in every for name in metrics(rule["expr"])} - {rule.get("record") for rule in every}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (namespace, model) (rate(nv_x{le=~"50([.]0)?"}[5m])) / 1e6', {"nv_x"}),
        ("a:b:c > 0 unless on (namespace) group_left () up == 1", {"a:b:c", "up"}),
        ("max_over_time(x[5m] offset 15m) * 60 >= 10 or 0 * y", {"x", "y"}),
        ('absent(up{job="nv_no"} == 1)', {"up"}),
    ],
)
def test_the_metrics_of_an_expression_are_found(expression: str, names: set[str]) -> None:
    assert metrics(expression) == names


def test_every_metric_in_a_rule_is_exported_by_somebody() -> None:
    assert sorted(name for name in read_by_rules() if not known(name)) == []


def test_a_name_that_no_server_exports_is_noticed() -> None:
    assert not known("triton_inference_queue_size")
    assert not known("nv_inference_load_ratio_bucket")


def test_the_list_of_names_from_elsewhere_holds_nothing_else() -> None:
    read = read_by_rules() | read_by_dashboards()
    unused = sorted(name for name in elsewhere() if name not in read and name not in {family(n) for n in read})
    assert unused == []
    assert sorted(elsewhere().keys() & recorded()) == []


def test_the_parity_check_exports_what_the_rules_read() -> None:
    assert {exporter.INFO, exporter.UP} <= read_by_rules()


def test_the_recorded_server_has_a_response_cache_and_summaries() -> None:
    assert {"nv_cache_num_hits_per_model", "nv_inference_request_summary_us"} <= recorded()


@pytest.mark.parametrize(
    ("selector", "series"),
    [
        (gateway.attempts(), 'envoy_cluster_upstream_rq_xx{envoy_response_code_class="2",'),
        (gateway.calls("14"), "envoy_cluster_grpc_ModelInfer_14{"),
        (gateway.calls("total"), "envoy_cluster_grpc_ModelInfer_total{"),
        (gateway.of_routes("envoy_cluster_upstream_rq_retry_overflow"), "envoy_cluster_upstream_rq_retry_overflow{"),
    ],
)
def test_the_routes_of_the_recorded_envoy_are_selected(selector: str, series: str) -> None:
    lines = (HERE / "recorded" / "envoy-1.39.0.prom").read_text().splitlines()
    named = [re.search(r'envoy_cluster_name="([^"]*)"', line) for line in lines if line.startswith(series)]
    wanted = re.search(r'envoy_cluster_name=~"([^"]*)"', selector)
    assert wanted is not None
    assert [found[1] for found in named if found is not None and re.fullmatch(wanted[1], found[1])] != []
