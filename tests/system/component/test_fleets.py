"""A preview of three fleets in one stack (CPUs, g5, p4d): the resources of each, and the shared ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from spec.names import PARITY_EXPORTER
from spec.route_names import object_name
from spec.settings.digest import digest_of
from spec.settings.source import load
from tests.paths import ROOT
from tests.system.component.engine.analyzer import running
from tests.system.component.engine.recording import Recording, Registration
from tests.system.component.engine.stack_run import TODAY, previewed

DEPLOYMENT, SERVICE, ACCOUNT = (
    f"kubernetes:{kind}" for kind in ("apps/v1:Deployment", "core/v1:Service", "core/v1:ServiceAccount")
)
ROUTE, SCALED = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", "kubernetes:keda.sh/v1alpha1:ScaledObject"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
NAMES = ["triton-cpu", "triton-g5", "triton-p4d"]
PICTURES = ["text_detection", "text_direction", "text_in_picture", "text_recognition"]


def three_fleets() -> dict[str, Any]:
    """Return prod with each of its models on its fleet, and one model on two fleets."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    config["triton-eks:triton"]["rollout"] = "rolling"
    config["triton-eks:nodes"]["cpu"] |= {"max": 6, "diskGiB": 100}
    models = config["triton-eks:models"]
    config["triton-eks:fleets"] = [
        {"name": "cpu", "models": ["speech"], "pool": "cpu", "gpus": 0, "replicas": 2, "cpu": "2", "memoryGiB": 8},
        {"name": "g5", "models": ["filetype", *PICTURES], "weights": {"filetype": 3}},
        {
            "name": "p4d",
            "models": ["filetype"],
            "pool": "p4d",
            "gpus": 4,
            "cpu": "40",
            "memoryGiB": 400,
            "autoscaling": {"minReplicas": 2, "maxReplicas": 3, "startSeconds": 600},
        },
    ]
    release = models.pop("release")
    del release["instances"]  # the digest below is of models without a release
    unpinned = load(config, "prod", today=TODAY).models
    models["release"] = {**release, "serving": digest_of(unpinned, (8.0, 8.6))}
    return config


@pytest.fixture(scope="module")
def preview() -> Recording:
    return previewed(ROOT, "prod", three_fleets())


def of_triton(preview: Recording, kind: str) -> dict[str, Registration]:
    """Return the objects in Triton's namespace, without the parity exporter's."""
    found = [item for item in preview.of_type(kind) if item.checked["metadata"].get("namespace") == "triton"]
    return {name: item for item in found if (name := item.checked["metadata"]["name"]) != PARITY_EXPORTER}


def test_each_fleet_has_its_own_objects(preview: Recording) -> None:
    assert sorted(of_triton(preview, DEPLOYMENT)) == sorted(of_triton(preview, ACCOUNT)) == NAMES
    assert sorted(of_triton(preview, BUDGET)) == NAMES
    services = [f"{name}{suffix}" for name in NAMES for suffix in ("", "-headless", "-metrics")]
    assert sorted(of_triton(preview, SERVICE)) == sorted(services)
    assert sorted(of_triton(preview, SCALED)) == ["triton-g5", "triton-p4d"]
    namespaces = [item.checked["metadata"]["name"] for item in preview.of_type("kubernetes:core/v1:Namespace")]
    assert namespaces.count("triton") == 1


def test_each_fleet_loads_its_models_and_runs_on_its_nodes(preview: Recording) -> None:
    found = {}
    for name, item in of_triton(preview, DEPLOYMENT).items():
        pod = item.checked["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        models = [arg.partition("=")[2] for arg in container["args"] if arg.startswith("--load-model")]
        found[name] = (
            models,
            pod["nodeSelector"]["triton-eks/pool"],
            container["resources"]["limits"].get("nvidia.com/gpu"),
        )
    assert found == {
        "triton-cpu": (["speech"], "cpu", None),
        "triton-g5": (["filetype", *PICTURES], "g5", "1"),
        "triton-p4d": (["filetype"], "p4d", "4"),
    }


def test_a_model_is_routed_to_its_fleets_after_their_pods(preview: Recording) -> None:
    routes = of_triton(preview, ROUTE)
    backends = {name: item.checked["spec"]["rules"][0]["backendRefs"] for name, item in routes.items()}
    assert backends == {
        "filetype": [
            {"name": "triton-g5", "port": 8000, "weight": 3},
            {"name": "triton-p4d", "port": 8000, "weight": 1},
        ],
        "speech": [{"name": "triton-cpu", "port": 8000}],
        **{object_name(model): [{"name": "triton-g5", "port": 8000}] for model in PICTURES},
    }
    charts = {item.urn for item in preview.of_type("kubernetes:helm.sh/v4:Chart") if item.name.startswith("triton-")}
    # A chart is complete when its pods are ready; until then requests follow their old routes.
    assert len(charts) == 3
    assert charts <= set(preview.one("triton:serving:ModelRoutes").depends_on)


def test_workers_know_the_fleet_of_each_model(preview: Recording) -> None:
    (worker,) = [item for item in preview.of_type(DEPLOYMENT) if item.checked["metadata"]["name"] == "triton-worker"]
    (container,) = worker.checked["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    asked = json.loads(variables["WORKER_TRITON_FLEETS"])
    assert [url.split(".")[0] for url in asked["filetype"]] == ["dns:///triton-g5-headless", "dns:///triton-p4d-headless"]


def test_nodes_are_held_ready_for_the_fleets_that_ask_for_it(preview: Recording) -> None:
    warm = [item for item in preview.of_type(DEPLOYMENT) if item.checked["metadata"].get("namespace") == "triton-warm"]
    assert [item.checked["metadata"]["name"] for item in warm] == ["triton-warm-g5"]


def test_fleets_violate_no_policy(preview: Recording) -> None:
    with running(ROOT / "policies") as pack:
        day = {"asOf": TODAY.isoformat()}
        pack.configure({"eks-version-supported": day, "eks-version-ageing": day})
        pack.configure_stack("prod", {"aws:region": "us-west-2", "triton-eks:environment": "prod"})
        # One advisory finding lists all checks that wait for `up`.
        assert {found.policy for found in pack.judge(preview)} == {"judged-at-up"}
