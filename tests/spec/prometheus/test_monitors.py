"""Our monitors and rules for prometheus-operator, checked against the pods and ports that they select."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra.platform import monitors
from spec.charts import KUBE_PROMETHEUS_STACK
from spec.names import MONITORING_NAMESPACE, PARITY_EXPORTER, TRITON_NAMESPACE, WORKER
from spec.prometheus.rule import JOB
from spec.prometheus.rule_file import groups
from spec.settings import Settings
from tests import crds
from tests.charts import rendering
from tests.paths import ROOT
from tests.spec.prometheus.stacks import STACKS, settings
from twin.charts.registry import CHARTS
from twin.releases import go_module

RUNBOOKS = "https://wiki.example.com/triton/runbooks"


def made(stack: str | Settings) -> dict[tuple[str, str], dict[str, Any]]:
    """Return a stack's objects by kind and name."""
    of = settings(stack) if isinstance(stack, str) else stack
    manifests = monitors.manifests(of, RUNBOOKS)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


@pytest.mark.parametrize("stack", STACKS)
def test_the_operators_own_definitions_accept_them(stack: str) -> None:
    wrong = {name: crds.problems("kube-prometheus-stack", manifest) for name, manifest in made(stack).items()}
    assert wrong == {name: [] for name in wrong}


def test_a_field_that_the_operator_does_not_know_is_noticed() -> None:
    monitor = monitors.pod_monitor("triton", "triton")
    monitor["spec"]["podMetricsEndpoints"][0]["portt"] = monitor["spec"]["podMetricsEndpoints"][0].pop("port")
    (problem,) = crds.problems("kube-prometheus-stack", monitor)
    assert problem.startswith("spec.podMetricsEndpoints.0: ")
    assert "'portt' was unexpected" in problem


def test_workers_and_the_gateway_are_scraped_where_there_are_any() -> None:
    whole = settings("prod")
    always = {("PodMonitor", "triton"), ("PodMonitor", "triton-parity"), ("PrometheusRule", "triton")}
    assert whole.worker is not None
    assert whole.gateway is not None
    assert made(whole).keys() == always | {("PodMonitor", "worker"), ("PodMonitor", "envoy")}
    assert made(whole.model_copy(update={"worker": None, "gateway": None})).keys() == always


def test_tritons_pods_are_selected_and_scraped_on_a_port_that_they_have() -> None:
    spec = made("prod")["PodMonitor", JOB]["spec"]
    template = rendering.deployment()["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert spec["namespaceSelector"] == {"matchNames": [TRITON_NAMESPACE]}
    (endpoint,) = spec["podMetricsEndpoints"]
    ports = {port["name"]: port["containerPort"] for port in rendering.container()["ports"]}
    assert ports[endpoint["port"]] == 8002
    assert (endpoint["interval"], endpoint["scrapeTimeout"], endpoint["honorLabels"]) == ("5s", "5s", False)


def test_the_job_is_the_one_that_the_rules_ask_for() -> None:
    spec = made("prod")["PodMonitor", JOB]["spec"]
    assert rendering.deployment()["spec"]["template"]["metadata"]["labels"][spec["jobLabel"]] == JOB


def test_tritons_network_policy_lets_prometheus_in() -> None:
    policy = rendering.only(rendering.render(), "NetworkPolicy")
    allowed = [
        peer["namespaceSelector"]["matchLabels"]
        for rule in policy["spec"]["ingress"]
        if any(port["port"] == 8002 for port in rule["ports"])
        for peer in rule["from"]
    ]
    assert allowed == [{"kubernetes.io/metadata.name": MONITORING_NAMESPACE}]


def test_the_workers_pods_are_selected() -> None:
    spec = made("prod")["PodMonitor", "worker"]["spec"]
    chart = (ROOT / "charts" / "worker" / "Chart.yaml").read_text()
    assert f"\nname: {spec['selector']['matchLabels']['app.kubernetes.io/name']}\n" in chart
    assert spec["namespaceSelector"] == {"matchNames": [WORKER.namespace]}
    assert "name: metrics" in (ROOT / "charts" / "worker" / "templates" / "deployment.yaml").read_text()


def test_envoys_pods_are_selected_by_what_envoy_gateway_calls_them() -> None:
    """internal/infrastructure/kubernetes/proxy/resource.go of its module: the labels, the port and its name."""
    spec = made("prod")["PodMonitor", "envoy"]["spec"]
    assert spec["selector"] == {"matchLabels": {"app.kubernetes.io/name": "envoy"}}
    assert spec["namespaceSelector"] == {"matchNames": ["envoy-gateway-system"]}
    (endpoint,) = spec["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/stats/prometheus")
    source = go_module.folder(CHARTS["gateway-helm"]) / "internal/infrastructure/kubernetes/proxy/resource.go"
    text = source.read_text()
    assert re.search(r'"app.kubernetes.io/name":\s+"envoy"', text)
    assert re.search(r'Name:\s+"metrics",\s+ContainerPort: bootstrap.EnvoyStatsPort', text)


def test_the_parity_check_keeps_the_pods_that_it_names() -> None:
    (endpoint,) = made("prod")["PodMonitor", PARITY_EXPORTER]["spec"]["podMetricsEndpoints"]
    assert (endpoint["honorLabels"], endpoint["interval"]) == (True, "60s")


def test_a_prometheus_that_selects_by_its_release_takes_them_too() -> None:
    labels = [manifest["metadata"]["labels"]["release"] for manifest in made("prod").values()]
    assert labels == [KUBE_PROMETHEUS_STACK.name] * len(labels)
    assert {manifest["metadata"]["namespace"] for manifest in made("prod").values()} == {MONITORING_NAMESPACE}


def test_the_rules_are_those_of_the_stack_and_lead_to_its_runbooks() -> None:
    rule = made("prod")["PrometheusRule", "triton"]
    assert rule["spec"]["groups"] == groups(settings("prod"), RUNBOOKS)
    links = {r["annotations"]["runbook_url"] for g in rule["spec"]["groups"] for r in g["rules"] if "alert" in r}
    assert all(link.startswith(f"{RUNBOOKS}/Triton") for link in links)
