"""The parity check in the cluster: its settings, the contents of its image, and its pod's permissions."""

from __future__ import annotations

import contextlib
from typing import Any

import pulumi_kubernetes as k8s
import pytest

from infra.platform import monitors
from infra.serving.parity import ParityExporter
from spec.names import PARITY_EXPORTER
from spec.versions import PROJECT
from tests.charts import pod_security
from tests.infra.access import access
from tests.paths import ROOT
from tests.spec.stack_config import DIGEST, ECR, complaints, settings
from tests.spec.test_stack_mistakes_monitoring import SECTION
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from twin.aws.base.clients import Clients

IMAGE = f"{ECR}/modelctl@{DIGEST}"
VALID = "give <mirror>/modelctl@sha256:<64 hex digits> (`crane digest` prints it)"


@pytest.fixture(scope="module")
def made() -> Recording:
    def program() -> None:
        provider = k8s.Provider("kubernetes", kubeconfig="{}")
        ParityExporter("parity", access(provider=provider), IMAGE)

    with fresh_account(), contextlib.chdir(ROOT):
        return run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=Clients("us-west-2"))


def one(made: Recording, kind: str) -> dict[str, Any]:
    return made.one(f"kubernetes:{kind}").checked


def test_no_stack_has_it_unless_it_names_an_image() -> None:
    monitoring = settings({"monitoring": SECTION}).monitoring
    assert monitoring is not None
    assert monitoring.parity_image is None
    settings({"monitoring": {**SECTION, "parityImage": IMAGE}})


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (
            f"{ECR}/modelctl:1.0",
            f"'{ECR}/modelctl:1.0' is not an image of modelctl by its digest: its path has to end in /modelctl; {VALID}",
        ),
        (f"{ECR}/modelctl@sha256:{'0' * 64}", f"'sha256:{'0' * 12}...' is a placeholder; {VALID}"),
    ],
)
def test_an_image_that_can_change_is_refused(image: str, said: str) -> None:
    assert complaints({"monitoring": {**SECTION, "parityImage": image}}) == [f"monitoring.parityImage: {said}"]


def test_it_may_list_endpoints_in_tritons_namespace_and_nothing_else(made: Recording) -> None:
    role = one(made, "rbac.authorization.k8s.io/v1:Role")
    assert role["rules"] == [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}]
    assert role["metadata"]["namespace"] == "triton"
    binding = one(made, "rbac.authorization.k8s.io/v1:RoleBinding")
    account = one(made, "core/v1:ServiceAccount")["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_its_monitor_selects_it_on_a_port_that_it_has(made: Recording) -> None:
    template = one(made, "apps/v1:Deployment")["spec"]["template"]
    monitor = monitors.pod_monitor(PARITY_EXPORTER, "triton")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == endpoint["port"]]
    assert f"--serve=$(POD_IP):{port}" in container["args"]


def test_its_pod_is_restricted_as_its_namespace_demands(made: Recording) -> None:
    assert pod_security.violations(one(made, "apps/v1:Deployment")["spec"]["template"]["spec"]) == []
