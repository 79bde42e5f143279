"""The comparer of responses to mirrored requests in the cluster: its routes, its pod's permissions, and when it exists."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import typer

from infra.platform import monitors
from infra.serving import routed_model, routes
from infra.serving.comparer import Compared, Comparer
from infra.serving.triton_values import Drain
from modelctl.cli import app
from spec.names import COMPARER
from spec.settings.scheduling import pods
from spec.settings.scheduling.requests import requested
from spec.versions import PROJECT
from tests import crds
from tests.charts import pod_security
from tests.infra.access import access
from tests.paths import ROOT
from tests.spec.stack_config import settings
from tests.spec.test_blue_green import BLUE_GREEN, COMPARED, MODELCTL, NEXT, RELEASE, WITH_CANDIDATE
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from twin.aws.base.clients import Clients


@pytest.fixture(scope="module")
def made() -> Recording:
    def program() -> None:
        found = Compared.of(settings({**COMPARED, "models.slot": "green"}), 60)
        assert found is not None
        Comparer("comparer", access(provider=k8s.Provider("kubernetes", kubeconfig="{}")), found)

    with fresh_account(), contextlib.chdir(ROOT):
        return run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=Clients("us-west-2"))


def one(made: Recording, kind: str) -> dict[str, Any]:
    return made.one(f"kubernetes:{kind}").checked


@pytest.mark.parametrize(
    "changes",
    [
        {**BLUE_GREEN, "triton.comparerImage": MODELCTL},
        {**WITH_CANDIDATE, "triton.comparerImage": MODELCTL},
        {**COMPARED, "models.candidate.mirrorTolerances": {}},
        {**COMPARED, "models.candidate.mirrorTolerances": {}, "triton.comparerImage": None},
    ],
    ids=["no candidate", "no copies", "nothing compared", "no image"],
)
def test_it_is_there_only_while_answers_are_compared(changes: dict[str, Any]) -> None:
    assert Compared.of(settings(changes), 60) is None
    assert Compared.of(settings(COMPARED), 60) is not None


@pytest.mark.parametrize(("slot", "other"), [("blue", "triton-green"), ("green", "triton-blue")])
def test_copies_of_compared_models_go_to_it_and_those_of_others_to_the_candidate(slot: str, other: str) -> None:
    both = {"classify": 1, "detect": 1}
    releases = {"models.release": {**RELEASE, "models": both}, "models.candidate": {"release": {**NEXT, "models": both}}}
    stack = settings({**COMPARED, **releases, "models.slot": slot})
    assert stack.gateway is not None
    found = {}
    for model in routed_model.routed(stack.models, stack.gateway, stack.each_fleet):
        for manifest in routes.manifests([model], Drain(30, 60)):
            assert crds.problems("gateway-helm", manifest) == []
            for rule in manifest["spec"].get("rules", []):
                (copies,) = [each["requestMirror"] for each in rule["filters"] if each["type"] == "RequestMirror"]
                found[manifest["kind"], model.name] = (copies["backendRef"]["name"], copies["backendRef"]["port"])
                assert copies["percent"] == 20
                weights = {each["name"]: each["weight"] for each in rule["backendRefs"]}
                # Only this tells the controller about the comparer's Service; without it all gRPC requests would fail.
                unasked = {other: 0} | ({COMPARER: 0} if model.name == "classify" else {})
                assert weights == {f"triton-{slot}": 100, **unasked}
    assert found == {
        ("HTTPRoute", "classify"): (COMPARER, 8000),
        ("GRPCRoute", "classify"): (COMPARER, 8001),
        ("HTTPRoute", "detect"): (other, 8000),
        ("GRPCRoute", "detect"): (other, 8001),
    }


def test_its_service_has_the_ports_that_its_pod_listens_at(made: Recording) -> None:
    service, template = one(made, "core/v1:Service"), one(made, "apps/v1:Deployment")["spec"]["template"]
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (COMPARER, "triton")
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {each["port"]: ports[each["targetPort"]] for each in service["spec"]["ports"]} == {8000: 8000, 8001: 8001}
    assert service["spec"]["ports"][1]["appProtocol"] == "kubernetes.io/h2c"
    monitor = monitors.pod_monitor(COMPARER, "triton")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert ports[monitor["podMetricsEndpoints"][0]["port"]] == 8002
    assert requested(container["resources"]) == pods.COMPARER


def test_its_arguments_are_those_of_the_command_about_both_releases(made: Recording) -> None:
    (container,) = one(made, "apps/v1:Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "modelctl"]
    name, *arguments = container["args"]
    command: Any = typer.main.get_command(app)
    parsed = command.commands[name].make_context(name, list(arguments)).params
    assert parsed == {
        "release_http": "http://triton-green.triton.svc.cluster.local:8000",
        "release_grpc": "dns:///triton-green-headless.triton.svc.cluster.local:8001",
        "candidate_http": "http://triton-blue.triton.svc.cluster.local:8000",
        "candidate_grpc": "dns:///triton-blue-headless.triton.svc.cluster.local:8001",
        "tolerance": ["classify=1e-05"],
        "http": "$(POD_IP):8000",
        "grpc": "$(POD_IP):8001",
        "serve": "0.0.0.0:8002",
        "seconds": 60.0,
        "http_proxy": None,
    }, shlex.join(arguments)
    assert container["image"] == MODELCTL


def test_it_has_no_right(made: Recording) -> None:
    assert [each for each in made.registrations if "rbac" in each.type or each.type.startswith("aws:")] == []
    template = one(made, "apps/v1:Deployment")["spec"]["template"]["spec"]
    assert template["automountServiceAccountToken"] is False
    assert one(made, "core/v1:ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_security.violations(template) == []


def test_prometheus_asks_it_where_a_stack_has_its_image() -> None:
    for image in (MODELCTL, None):
        stack = settings({**COMPARED, "models.candidate.mirrorTolerances": {}, "triton.comparerImage": image})
        names = [each["metadata"]["name"] for each in monitors.manifests(stack, "https://r.example.com")]
        assert (COMPARER in names) is (image is not None)
