"""The collector: its configuration, the consistency of its parts, and its permissions.

The chart is not available here: the tests compare its values with docs/facts/charts.md#opentelemetry-collector.
tests/system/serving/test_collector.py runs the configuration in the real collector.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.platform import tracing
from spec.charts import OPENTELEMETRY_COLLECTOR
from spec.names import OTLP_HTTP_URL, TRACE_COLLECTOR_SERVICE
from spec.settings.serving import ModelServing
from spec.settings.tracing import Tracing
from tests import crds
from tests.charts import rendering
from tests.pod_identity import assert_credentials

pytestmark = pytest.mark.usefixtures("in_the_project")

XRAY = {"exporter": "xray"}
OTLP = {"exporter": "otlp", "endpoint": "https://otlp.example.com:4318"}
LONGEST = 60


def wants(**keys: Any) -> Tracing:
    return Tracing.model_validate(keys)


def serving(slo: int, peak: float) -> ModelServing:
    return ModelServing.model_validate({"device": "cpu", "sloP95Ms": slo, "expectedRate": 1.0, "peakRate": peak})


SERVING = {"classify": serving(50, 120.0), "embed": serving(200, 30.0)}


def config(**keys: Any) -> dict[str, Any]:
    return tracing.collector_config(wants(**(keys or XRAY)), SERVING, LONGEST, "us-west-2")


@pytest.mark.parametrize("keys", [XRAY, OTLP], ids=["xray", "otlp"])
def test_every_part_of_a_pipeline_is_there_and_every_part_is_in_one(keys: dict[str, Any]) -> None:
    made = config(**keys)
    pipelines = made["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in pipelines for name in pipeline[kind]}
        assert used == made[kind].keys(), kind
    assert set(made["service"]["extensions"]) == made["extensions"].keys()


def test_memory_is_guarded_first_and_batches_are_made_last() -> None:
    (pipeline,) = config()["service"]["pipelines"].values()
    assert pipeline["processors"] == ["memory_limiter", "transform/refused", "tail_sampling", "batch"]


def test_the_ports_that_it_listens_on_are_those_of_its_service_and_no_other() -> None:
    ports = tracing.values(config(), to_xray=True)["ports"]
    enabled = {name: port["containerPort"] for name, port in ports.items() if port["enabled"]}
    protocols = config()["receivers"]["otlp"]["protocols"]
    assert protocols["grpc"]["endpoint"].endswith(f":{enabled['otlp']}")
    assert protocols["http"]["endpoint"].endswith(f":{enabled['otlp-http']}")
    assert enabled == {"otlp": 4317, "otlp-http": 4318, "metrics": 8888}


def test_triton_and_envoy_send_to_the_service_that_the_chart_makes() -> None:
    name = tracing.values(config(), to_xray=True)["fullnameOverride"]
    assert f"http://{name}.tracing.svc.cluster.local:4318/v1/traces" == OTLP_HTTP_URL
    assert name == TRACE_COLLECTOR_SERVICE


def policies(**keys: Any) -> dict[str, dict[str, Any]]:
    return {policy["name"]: policy for policy in config(**keys)["processors"]["tail_sampling"]["policies"]}


def test_slow_is_what_the_stack_says_of_each_model() -> None:
    found = {
        name: {part["type"]: part[part["type"]] for part in policy["and"]["and_sub_policy"]}
        for name, policy in policies(**XRAY).items()
        if policy["type"] == "and"
    }
    assert found == {
        "slow-classify": {
            "string_attribute": {"key": "triton.model_name", "values": ["classify"]},
            "latency": {"threshold_ms": 50},
        },
        "slow-embed": {
            "string_attribute": {"key": "triton.model_name", "values": ["embed"]},
            "latency": {"threshold_ms": 200},
        },
    }
    assert policies(**XRAY)["slow"]["latency"] == {"threshold_ms": 200}


def test_without_models_a_second_is_slow() -> None:
    made = tracing.tail_sampling(wants(**XRAY), {}, LONGEST)
    assert [item for item in made["policies"] if item["type"] == "latency"] == [
        {"name": "slow", "type": "latency", "latency": {"threshold_ms": 1000}}
    ]


def test_failed_requests_stay_and_a_percentage_of_the_rest() -> None:
    assert policies(**XRAY)["failed"]["status_code"] == {"status_codes": ["ERROR"]}
    assert policies(**XRAY)["rest"]["probabilistic"] == {"sampling_percentage": 5}
    assert "rest" not in policies(**XRAY, keepPercent=0)


def test_a_decision_waits_for_the_longest_request_and_there_is_room_for_what_waits() -> None:
    made = config()["processors"]["tail_sampling"]
    assert made["decision_wait"] == "70s"
    assert made["num_traces"] == 2 * 150 * 70


def test_x_ray_is_written_to_in_the_stacks_region_with_a_role_that_may_nothing_else() -> None:
    assert config(**XRAY)["exporters"] == {"awsxray": {"region": "us-west-2", "indexed_attributes": ["triton.model_name"]}}
    (statement,) = json.loads(tracing.xray_policy())["Statement"]
    assert statement["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]


def test_any_other_place_gets_otlp_and_needs_no_role() -> None:
    assert config(**OTLP)["exporters"] == {"otlp_http": {"endpoint": "https://otlp.example.com:4318"}}
    values = tracing.values(config(**OTLP), to_xray=False)
    assert values["serviceAccount"] == {"create": True, "name": "otel-collector"}
    assert not {"extraEnvs", "extraVolumes", "extraVolumeMounts"} & values.keys()


def test_the_values_are_what_the_chart_asks_for() -> None:
    """Mode and image have no default; `alternateConfig` replaces the chart's own configuration."""
    values = tracing.values(config(), to_xray=True)
    assert values["mode"] == "deployment"
    assert values["image"]["repository"] == "otel/opentelemetry-collector-contrib"
    assert values["command"]["name"] == "otelcol-contrib"
    assert values["alternateConfig"] == config()
    assert "config" not in values
    assert values["replicaCount"] == 1, "a trace is decided about by the one collector that has all of it"
    assert values["serviceAccount"] == {"create": True, "name": "otel-collector"}
    assert_credentials(values["extraEnvs"], values["extraVolumeMounts"], values["extraVolumes"])
    assert OPENTELEMETRY_COLLECTOR.version == "0.170.0"


def test_the_gateway_may_name_the_collectors_service() -> None:
    spec = tracing.grant_spec()
    grant = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "gateway", "namespace": "tracing"},
        "spec": spec,
    }
    assert crds.problems("gateway-helm", grant) == []
    assert spec["to"] == [{"group": "", "kind": "Service", "name": TRACE_COLLECTOR_SERVICE}]


def test_the_chart_of_triton_takes_the_endpoint() -> None:
    overrides = {"tracing": {"endpoint": OTLP_HTTP_URL, "rate": 100, "serviceName": "triton-prod"}}
    args = rendering.container(overrides, environment="prod")["args"]
    assert f"--trace-config=opentelemetry,url={OTLP_HTTP_URL}" in args
