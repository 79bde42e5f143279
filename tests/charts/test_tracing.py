"""Tracing: the server's flags, the address of the collector, and the refused values."""

from typing import Any

import pytest

from spec.triton_options import check_arguments
from spec.versions import TRITON_RELEASES
from tests.charts import rendering
from twin.releases import helm

URL = "http://otel-collector.tracing.svc.cluster.local:4318/v1/traces"
TRACING: dict[str, Any] = {"tracing": {"endpoint": URL, "rate": 20, "serviceName": "triton-prod"}}


def egress_ports(overrides: dict[str, Any]) -> list[int]:
    policy = rendering.only(rendering.render(overrides, environment="prod"), "NetworkPolicy")
    return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]


def test_the_server_does_not_trace_by_default() -> None:
    assert [arg for arg in rendering.container(environment="prod")["args"] if "trace-config" in arg] == []
    assert egress_ports({}) == [53, 53, 443]


def test_the_flags_of_tracing() -> None:
    args = rendering.container(TRACING, environment="prod")["args"]
    assert [arg for arg in args if arg.startswith("--trace")] == [
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=20",
        f"--trace-config=opentelemetry,url={URL}",
        "--trace-config=opentelemetry,resource=service.name=triton-prod",
    ]


@pytest.mark.parametrize("version", TRITON_RELEASES)
def test_every_accepted_release_understands_them(version: str) -> None:
    args = rendering.container({**TRACING, "server": {"version": version}}, environment="prod")["args"]
    assert check_arguments(args, TRITON_RELEASES[version].server) == []


@pytest.mark.parametrize(
    ("url", "namespace"),
    [
        (URL, "tracing"),
        ("http://otel-collector.tracing.svc:4318/v1/traces", "tracing"),
        ("http://collector.example.com:4318/v1/traces", None),
        ("http://10.0.0.7:4318/v1/traces", None),
    ],
)
def test_the_pod_may_call_the_collector_in_its_namespace(url: str, namespace: str | None) -> None:
    overrides = {"tracing": {**TRACING["tracing"], "endpoint": url}}
    assert egress_ports(overrides) == [53, 53, 443, 4318]
    *_, rule = rendering.only(rendering.render(overrides, environment="prod"), "NetworkPolicy")["spec"]["egress"]
    selected = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    assert rule.get("to") == (None if namespace is None else [selected])


@pytest.mark.parametrize(
    ("tracing", "said"),
    [
        ({"endpoint": "https://collector:4318/v1/traces"}, "tracing.endpoint"),
        ({"endpoint": "http://collector:4318"}, "tracing.endpoint"),
        ({"endpoint": URL, "rate": 0}, "tracing.rate"),
        ({"endpoint": URL, "level": "TENSORS"}, "level"),
        ({"endpoint": URL, "serviceName": "a b"}, "tracing.serviceName"),
    ],
)
def test_what_cannot_work_is_refused(tracing: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError) as error:
        rendering.render({"tracing": tracing}, environment="prod")
    assert said in str(error.value)
