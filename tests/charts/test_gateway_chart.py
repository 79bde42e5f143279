"""Renders our values with real Helm and the Envoy Gateway chart from its Go module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.platform.gateway import controller_values
from spec import helm_values
from spec.charts import ENVOY_GATEWAY, ENVOY_IMAGE, SHUTDOWN_MANAGER
from spec.names import GATEWAY_NAMESPACE
from spec.pod_sets import NOTHING
from spec.settings.gateway import Gateway
from spec.settings.scheduling.requests import requested
from tests import pod_requests
from tests.charts import rendering
from tests.charts.module_charts import module, readers_of_secrets, unknown
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from tests.system.component import reach
from twin.releases import helm


@pytest.fixture(scope="module")
def gateway_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Envoy Gateway chart. In its Go module, placeholders stand for the image of the release."""
    source = module(ENVOY_GATEWAY.name) / "charts" / "gateway-helm"
    target = tmp_path_factory.mktemp("charts") / "gateway-helm"
    for path in source.rglob("*"):
        if path.is_file() and "crds/crds" not in path.as_posix():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    template = (target / "values.tmpl.yaml").read_text()
    image = f"docker.io/envoyproxy/gateway:{ENVOY_GATEWAY.version}"
    (target / "values.yaml").write_text(
        template.replace("${GatewayImage}", image).replace("${GatewayImagePullPolicy}", "IfNotPresent")
    )
    return target


def render(chart: Path, minor: str, computed: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return helm.render(
        chart,
        name=ENVOY_GATEWAY.name,
        namespace=GATEWAY_NAMESPACE,
        values=helm_values.merge(helm_values.base_values(ENVOY_GATEWAY.name), computed or {}),
        kube_version=f"v{minor}.0",
        api_versions=["policy/v1"],
    )


def test_every_value_is_one_that_the_chart_has(gateway_chart: Path) -> None:
    known = yaml.safe_load((gateway_chart / "values.yaml").read_text())
    # It is only in the template.
    known["deployment"]["priorityClassName"] = None
    assert list(unknown(helm_values.base_values(ENVOY_GATEWAY.name), known)) == []


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_the_controller_is_what_our_values_say(gateway_chart: Path, minor: str) -> None:
    objects = render(gateway_chart, minor)
    deployment = rendering.only(objects, "Deployment", "envoy-gateway")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
    assert rendering.only(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    assert [item for item in objects if item["kind"] == "MutatingWebhookConfiguration"] == []


def test_its_pods_ask_for_what_they_are_counted_with(gateway_chart: Path) -> None:
    found = pod_requests.of_objects(render(gateway_chart, KUBERNETES_MINORS[-1]))
    counted = pod_requests.counted(ENVOY_GATEWAY.name)
    assert {name: asked for name, asked in found.items() if asked[1] != NOTHING} == counted


def test_what_drains_envoy_asks_for_what_is_counted() -> None:
    source = (module(ENVOY_GATEWAY.name) / "api/v1alpha1/shared_types.go").read_text()
    default = r'DefaultShutdownManager{}ResourceRequests = "(\w+)"'
    cpu, memory = (re.search(default.format(of), source) for of in ("CPU", "Memory"))
    assert cpu is not None and memory is not None
    assert requested({"requests": {"cpu": cpu[1], "memory": memory[1]}}) == SHUTDOWN_MANAGER


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_object_is_valid(gateway_chart: Path, minor: str) -> None:
    assert_valid(render(gateway_chart, minor), minor)


def test_with_a_registry_of_ones_own_no_image_comes_from_docker_hub(gateway_chart: Path) -> None:
    """Check Envoy's own image too: the chart leaves it to the controller, which uses a constant."""
    registry = "123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub"
    gateway = Gateway.model_validate({"replicas": 2, "cpu": "1", "memoryMiB": 512, "imageRegistry": registry})
    text = yaml.safe_dump_all(render(gateway_chart, KUBERNETES_MINORS[0], controller_values(gateway)))
    assert "docker.io" not in text
    assert sorted(set(re.findall(rf"{re.escape(registry)}/([a-z/-]+):", text))) == [
        "envoyproxy/gateway",
        "envoyproxy/ratelimit",
    ]
    types = (module(ENVOY_GATEWAY.name) / "api" / "v1alpha1" / "shared_types.go").read_text()
    minor = ENVOY_IMAGE.rpartition(".")[0]
    assert f'DefaultEnvoyProxyImage = "docker.io/{minor}.' in types


def test_envoy_counts_the_calls_of_each_method_for_grpc_routes() -> None:
    """Check that the metrics for `calls` of spec/prometheus/gateway.py are on by default, after the rate limit filter."""
    internal = module(ENVOY_GATEWAY.name) / "internal"
    route = (internal / "gatewayapi/route.go").read_text()
    pattern = r"KindGRPCRoute \{.*?EnableGRPCStats == nil \{\s+\S+EnableGRPCStats = new\(true\)"
    assert re.search(pattern, route, re.DOTALL)
    filters = (internal / "xds/filters/wellknown.go").read_text()
    assert re.search(r"StatsForAllMethods: &wrapperspb.BoolValue\{Value: true\}", filters)
    order = (internal / "xds/translator/httpfilters.go").read_text()
    limit, stats = (
        int(re.search(rf"egv1a1.EnvoyFilter{name}\):\s+order = (\d+)", order)[1])  # type: ignore[index]
        for name in ("LocalRateLimit", "GRPCStats")
    )
    assert limit < stats


def test_its_ports_and_webhooks_are_in_the_table_of_connections(gateway_chart: Path) -> None:
    assert reach.unlisted(render(gateway_chart, KUBERNETES_MINORS[-1])) == []


def test_its_controller_reads_the_secrets_of_all_namespaces(gateway_chart: Path) -> None:
    """Certificates and keys may be in any namespace, as docs/security.md#secrets says."""
    assert readers_of_secrets(render(gateway_chart, KUBERNETES_MINORS[-1])) == ["gateway-helm-envoy-gateway-role"]
