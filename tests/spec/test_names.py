"""Names and ports that charts, the worker and the policies repeat equal those of `spec.names`."""

from __future__ import annotations

import ast
from typing import Any

import yaml

from spec import names
from spec.charts import KUBE_PROMETHEUS_STACK
from tests.charts import rendering
from tests.paths import ROOT
from worker import store

PORTS = {"http": names.TRITON_HTTP_PORT, "grpc": names.TRITON_GRPC_PORT, "metrics": names.TRITON_METRICS_PORT}


def service(name: str) -> dict[str, Any]:
    return rendering.only(rendering.render(environment="prod", name=names.TRITON_RELEASE), "Service", name)["spec"]


def test_the_container_and_its_services_have_the_ports() -> None:
    (container,) = rendering.pod()["containers"]
    assert container["name"] == names.TRITON_CONTAINER
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == PORTS
    ports = {port["name"]: port["port"] for port in service(names.TRITON_SERVICE)["ports"]}
    assert ports == {name: PORTS[name] for name in ("http", "grpc")}


def test_pods_say_which_release_they_serve_unless_it_changes_in_place() -> None:
    rolling, in_place = (
        rendering.deployment(values)["spec"]["template"]["metadata"]["labels"] for values in ({}, rendering.IN_PLACE)
    )
    assert names.POD_RELEASE in rolling
    assert names.POD_RELEASE not in in_place


def test_the_headless_service_resolves_to_each_pod() -> None:
    headless = service(names.headless_service(names.TRITON_RELEASE))
    assert headless["clusterIP"] == "None"
    assert names.TRITON_GRPC_PORT in {port["port"] for port in headless["ports"]}


def test_triton_lets_in_clients_by_label_and_monitoring_by_namespace() -> None:
    objects = rendering.render(environment="prod", name=names.TRITON_RELEASE)
    rules = rendering.only(objects, "NetworkPolicy", names.TRITON_RELEASE)["spec"]["ingress"]
    peers = {
        port["port"]: [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"] if "namespaceSelector" in peer]
        for rule in rules
        for port in rule["ports"]
    }
    assert peers[names.TRITON_HTTP_PORT] == peers[names.TRITON_GRPC_PORT] == [{names.INFERENCE_CLIENT_LABEL: "true"}]
    assert peers[names.TRITON_METRICS_PORT] == [{"kubernetes.io/metadata.name": names.MONITORING_NAMESPACE}]


def test_the_workers_chart_asks_triton_where_it_is() -> None:
    values = yaml.safe_load((ROOT / "charts/worker/values.yaml").read_text(encoding="utf-8"))["triton"]
    assert values["url"] == names.TRITON_GRPC_URL
    assert (values["namespace"], values["port"]) == (names.TRITON_NAMESPACE, names.TRITON_GRPC_PORT)


def test_prometheus_is_where_its_chart_puts_it() -> None:
    """`<release>-prometheus`, and a release has its chart's name."""
    assert f"{KUBE_PROMETHEUS_STACK.name}-prometheus" == names.PROMETHEUS_SERVICE


def test_the_worker_writes_where_its_role_allows_it() -> None:
    assert (store.INPUTS, store.RESULTS, store.FAILURES) == (
        names.INPUTS_PREFIX,
        names.RESULTS_PREFIX,
        names.FAILURES_PREFIX,
    )


def test_nothing_is_imported_but_the_standard_library() -> None:
    """The exporter's image, the commands and the twin use the names, each with different packages."""
    tree = ast.parse((ROOT / "spec/names.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "dataclasses"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
