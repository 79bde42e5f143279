"""Renders our values with real Helm and the External Secrets Operator chart from its Go module (version 1.3)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.platform import client_keys
from spec import helm_values
from spec.charts import EXTERNAL_SECRETS_OPERATOR as PIN
from spec.names import EXTERNAL_SECRETS
from tests import pod_requests
from tests.charts.module_charts import module, readers_of_secrets, unknown
from tests.charts.rendering import only
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from tests.pod_identity import assert_pod
from tests.system.component import reach
from twin.releases import helm


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the chart without its dependency: our values disable it, but Helm would look for it."""
    source = module(PIN.name) / "deploy" / "charts" / PIN.name
    target = tmp_path_factory.mktemp("charts") / PIN.name
    for path in source.rglob("*"):
        if path.is_file() and "tests" not in path.relative_to(source).parts:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    (target / "Chart.lock").unlink()
    described = yaml.safe_load((target / "Chart.yaml").read_text())
    del described["dependencies"]
    (target / "Chart.yaml").write_text(yaml.safe_dump(described))
    return target


def render(chart: Path, minor: str = KUBERNETES_MINORS[-1]) -> list[dict[str, Any]]:
    return helm.render(
        chart,
        name=PIN.name,
        namespace=EXTERNAL_SECRETS.namespace,
        values=client_keys.values(),
        kube_version=f"v{minor}.0",
        api_versions=["policy/v1"],
    )


def test_every_value_is_one_that_the_chart_has(chart: Path) -> None:
    known = yaml.safe_load((chart / "values.yaml").read_text())
    assert list(unknown(helm_values.base_values(PIN.name), known)) == []


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_object_is_valid(chart: Path, minor: str) -> None:
    assert_valid(render(chart, minor), minor)


def test_it_is_one_deployment_with_the_role_and_the_requests_that_are_counted(chart: Path) -> None:
    objects = render(chart)
    assert pod_requests.of_objects(objects) == pod_requests.counted(PIN.name)
    account = only(objects, "ServiceAccount")["metadata"]
    assert (account["namespace"], account["name"]) == (EXTERNAL_SECRETS.namespace, EXTERNAL_SECRETS.name)
    assert "annotations" not in account
    pod = only(objects, "Deployment", PIN.name)["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["serviceAccountName"] == EXTERNAL_SECRETS.name
    assert_pod(pod)


def test_it_reaches_secrets_of_its_own_namespace_alone(chart: Path) -> None:
    objects = render(chart)
    assert [item["metadata"]["name"] for item in objects if re.match("ClusterRole|.*Webhook", item["kind"])] == []
    namespaces = {item["metadata"]["namespace"] for item in objects if item["kind"] in ("Role", "RoleBinding")}
    assert namespaces == {EXTERNAL_SECRETS.namespace}
    arguments = only(objects, "Deployment", PIN.name)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--namespace={EXTERNAL_SECRETS.namespace}" in arguments
    assert "--enable-leader-election=true" in arguments


def test_its_ports_and_webhooks_are_in_the_table_of_connections(chart: Path) -> None:
    assert reach.unlisted(render(chart)) == []


def test_its_cluster_roles_read_no_secret_of_every_namespace(chart: Path) -> None:
    assert readers_of_secrets(render(chart)) == []
