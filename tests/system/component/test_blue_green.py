"""A preview of prod with a candidate on a separate Deployment: the duplicated resources, and the shares of requests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from spec.route_names import object_name
from spec.settings.digest import digest_of
from spec.settings.source import load
from tests.paths import ROOT
from tests.spec.stack_config import DIGEST, ECR
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, previewed
from tests.system.component.test_fleets import ACCOUNT, BUDGET, DEPLOYMENT, ROUTE, SCALED, SERVICE, of_triton

NAMES = ["triton-blue", "triton-green"]


def with_candidate() -> dict[str, Any]:
    """Return prod with a release in the green slot and a candidate in the blue slot.

    The candidate gets 5 % of the requests. Without `speech`, because sequences cannot be split between releases.
    """
    config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    models = config["triton-eks:models"]
    release = models.pop("release")
    del release["instances"]  # the digest below is of models without a release
    for one in (models["serving"], release["models"], release["batches"]):
        del one["speech"]
    models["release"] = {**release, "serving": digest_of(load(config, "prod", today=TODAY).models, (8.6,))}
    candidate = {key: value for key, value in models["release"].items() if key != "previous"} | {
        "id": "aaaaaaaaaaaa" + 52 * "0"
    }
    models |= {"slot": "green", "candidate": {"release": candidate, "percent": 5, "pods": 3}}
    return config


@pytest.fixture(scope="module")
def preview() -> Recording:
    return previewed(ROOT, "prod", with_candidate())


def test_each_release_has_its_own_objects(preview: Recording) -> None:
    for kind in (DEPLOYMENT, ACCOUNT, BUDGET, SCALED):
        assert sorted(of_triton(preview, kind)) == NAMES
    services = [f"{name}{suffix}" for name in NAMES for suffix in ("", "-headless", "-metrics")]
    assert sorted(of_triton(preview, SERVICE)) == services
    bounds = {name: item.checked["spec"]["minReplicaCount"] for name, item in of_triton(preview, SCALED).items()}
    assert bounds == dict.fromkeys(NAMES, 3)


def test_each_deployment_serves_its_release(preview: Recording) -> None:
    pods = {name: item.checked["spec"]["template"] for name, item in of_triton(preview, DEPLOYMENT).items()}
    release = with_candidate()["triton-eks:models"]["release"]["id"]
    ids = {name: pod["metadata"]["annotations"]["triton-eks/release"] for name, pod in pods.items()}
    assert ids == {"triton-blue": "aaaaaaaaaaaa" + 52 * "0", "triton-green": release}
    for name, id_ in ids.items():
        (fetcher,) = pods[name]["spec"]["initContainers"]
        assert id_ in fetcher["args"]


def test_each_model_is_shared_over_http_and_grpc(preview: Recording) -> None:
    for kind in (ROUTE, ROUTE.replace("HTTPRoute", "GRPCRoute")):
        found = of_triton(preview, kind)
        assert found
        for item in found.values():
            for rule in item.checked["spec"]["rules"]:
                shares = {one["name"]: one["weight"] for one in rule["backendRefs"]}
                assert shares == {"triton-green": 95, "triton-blue": 5}


IMAGE = f"{ECR}/modelctl@{DIGEST}"


def test_copies_are_compared_by_a_pod_that_is_there_before_the_routes() -> None:
    config = with_candidate()
    config["triton-eks:triton"]["comparerImage"] = IMAGE
    tried = config["triton-eks:models"]["candidate"]
    model = next(iter(tried["release"]["models"]))
    tried |= {"percent": 0, "mirrorPercent": 20, "mirrorTolerances": {model: 0.01}}
    found = previewed(ROOT, "prod", config)
    comparer = of_triton(found, DEPLOYMENT)["triton-compare"]
    (container,) = comparer.checked["spec"]["template"]["spec"]["containers"]
    assert f"--tolerance={model}=0.01" in container["args"]
    route = of_triton(found, ROUTE)[object_name(model)]
    (copies,) = [each for each in route.checked["spec"]["rules"][0]["filters"] if each["type"] == "RequestMirror"]
    assert copies["requestMirror"] == {"backendRef": {"name": "triton-compare", "port": 8000}, "percent": 20}
    (routes,) = found.of_type("triton:serving:ModelRoutes")
    assert (comparer.urn in routes.depends_on, route.parent) == (True, routes.urn)
