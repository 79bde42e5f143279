"""Values of the charts that scale pods, against docs/facts/charts.md, because the charts cannot be pulled here."""

from typing import Any

from infra.platform import keda, prometheus_adapter
from spec.charts import KARPENTER, KARPENTER_CRDS
from spec.scaling.signal import RECORDINGS, recordings, signals
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, HPA

ARN = "arn:aws:iam::123456789012:role/keda"


def test_karpenter_and_its_kinds_are_of_one_version() -> None:
    assert KARPENTER.version == KARPENTER_CRDS.version


def test_kedas_operator_has_a_token_for_a_role() -> None:
    given = keda.values(ARN, monitored=False)
    assert given["podIdentity"]["aws"]["irsa"] == {"enabled": True, "roleArn": ARN, "stsRegionalEndpoints": "true"}
    assert "prometheus" not in given


def test_each_part_of_keda_is_there_twice_and_spelt_as_the_chart_does() -> None:
    given = keda.values(ARN, monitored=True)
    assert [given[part]["replicaCount"] for part in ("operator", "metricsServer", "webhooks")] == [2, 2, 2]
    assert set(given["podDisruptionBudget"]) == {"operator", "metricServer", "webhooks"}
    assert {part: on["serviceMonitor"]["enabled"] for part, on in given["prometheus"].items()} == {
        "operator": True,
        "metricServer": True,
        "webhooks": True,
    }


def test_the_adapter_serves_custom_metrics_alone() -> None:
    rules: dict[str, Any] = prometheus_adapter.values("http://p.monitoring.svc:9090")["rules"]
    assert (rules["default"], rules["external"], rules["resource"]) == (False, [], {})
    assert [rule["name"]["as"] for rule in rules["custom"]] == ["triton_pending_requests", "triton_needed_instances"]


def test_the_adapter_asks_the_prometheus_of_the_stack() -> None:
    given = prometheus_adapter.values("http://p.monitoring.svc:9090")["prometheus"]
    assert given == {"url": "http://p.monitoring.svc", "port": 9090}


def test_each_metric_of_the_autoscaler_is_one_of_the_adapters() -> None:
    served = {rule["name"]["as"] for rule in prometheus_adapter.values("http://p:9090")["rules"]["custom"]}
    asked = {signal.pods_metric()["pods"]["metric"]["name"] for signal in signals(settings(HPA))}
    assert asked == served == {recording.metric for recording in RECORDINGS}


def test_the_load_of_gpus_that_models_share_is_a_metric_of_pods_without_a_selector() -> None:
    on_gpu = {**CLASSIFY, "device": "gpu", "gpuMemoryMiB": 900}
    read = settings({**HPA, "models.serving": {"detect": on_gpu, "embed": on_gpu}})
    served = prometheus_adapter.values("http://p:9090", recordings(read))["rules"]["custom"]
    assert served[-1]["seriesQuery"] == 'pod:triton_gpu_load:rate{namespace!="",pod!=""}'
    assert signals(read)[-1].pods_metric()["pods"] == {
        "metric": {"name": served[-1]["name"]["as"]},
        "target": {"type": "AverageValue", "averageValue": "740m"},
    }


def test_a_rule_finds_the_series_that_it_names() -> None:
    for rule, recording in zip(prometheus_adapter.values("http://p:9090")["rules"]["custom"], RECORDINGS, strict=True):
        assert rule["seriesQuery"].startswith(f"{recording.series}{{")
        assert rule["name"]["matches"] == f"^{recording.series}$"
