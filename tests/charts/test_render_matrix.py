"""Each combination of the program's settings renders valid objects for each supported Kubernetes minor."""

import itertools
import json
from typing import Any

import kubernetes_validate
import pytest

from spec.helm_values import merge
from spec.versions import KUBERNETES
from tests.charts import rendering
from tests.charts.rendering import ENVIRONMENTS, IN_PLACE
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid

OWNERS = ("none", "external")
ENDPOINTS = ("", "http://127.0.0.1:5000")
MODELS = ({"resnet50": 1}, {"resnet50": 1, "pipeline": 2, "tokenizer": 7})
MORE = (
    {"server": {"responseCacheBytes": 64 * 1024**2, "rateLimiter": {"resources": {"slots": 4}}}},
    IN_PLACE,
)
EXCLUSIVE = {"count": 2, "resourceName": "nvidia.com/gpu"}
SHARED = {"count": 1, "resourceName": "nvidia.com/gpu.shared"}


def overrides(owner: str, endpoint: str, models: dict[str, int], gpu: dict[str, Any]) -> dict[str, Any]:
    return {
        "autoscaling": {"owner": owner},
        "replicaCount": 2 if owner == "none" else None,
        "modelRepository": {"s3": {"endpoint": endpoint}},
        "release": {"models": models},
        "gpu": gpu,
    }


def test_every_minor_that_can_be_chosen_is_in_the_matrix() -> None:
    assert set(KUBERNETES) <= set(KUBERNETES_MINORS)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("owner", OWNERS)
def test_every_combination_is_valid_for_every_minor(environment: str, owner: str) -> None:
    combinations = [overrides(owner, *rest) for rest in itertools.product(ENDPOINTS, MODELS, (EXCLUSIVE, SHARED))]
    for values in [*combinations, *(merge(combinations[0], more) for more in MORE)]:
        objects = rendering.render(values, environment=environment)
        assert rendering.kinds(objects) == [
            "NetworkPolicy",
            "PodDisruptionBudget",
            "ServiceAccount",
            "Service",
            "Service",
            "Service",
            "Deployment",
        ]
        for minor in KUBERNETES_MINORS:
            assert_valid(objects, minor)


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_the_validation_can_fail(minor: str) -> None:
    broken = rendering.deployment()
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(broken, minor, strict=True)
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        kubernetes_validate.validate({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget"}, minor)


@pytest.mark.parametrize("gpu", [EXCLUSIVE, SHARED, {"count": 8}, {"count": 0}])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_extended_resources_are_whole_and_equal_in_requests_and_limits(environment: str, gpu: dict[str, Any]) -> None:
    resources = rendering.container({"gpu": gpu}, environment=environment)["resources"]
    assert resources["requests"] == resources["limits"] | {"cpu": "3"}
    extended = {name: amount for name, amount in resources["limits"].items() if "/" in name}
    name = gpu.get("resourceName", "nvidia.com/gpu")
    expected = {name: str(gpu["count"])} if gpu["count"] else {}
    assert extended == expected


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_object_is_in_the_namespace_and_carries_the_labels(environment: str) -> None:
    for document in rendering.render(environment=environment):
        labels = document["metadata"]["labels"]
        assert document["metadata"]["namespace"] == "triton"
        assert labels["app.kubernetes.io/name"] == "triton"
        assert labels["app.kubernetes.io/instance"] == "triton"
        assert labels["app.kubernetes.io/version"] == "26.11"
        assert labels["helm.sh/chart"] == "triton-0.1.0"


def test_the_same_values_render_the_same_documents_in_the_same_order() -> None:
    assert json.dumps(rendering.render(environment="prod")) == json.dumps(rendering.render(environment="prod"))


@pytest.mark.parametrize(
    ("release_name", "expected"),
    [("triton", "triton"), ("triton-canary", "triton-canary"), ("blue", "blue-triton")],
)
def test_names_follow_the_release(release_name: str, expected: str) -> None:
    objects = rendering.render(name=release_name)
    assert rendering.only(objects, "Deployment")["metadata"]["name"] == expected
    assert [o["metadata"]["name"] for o in objects if o["kind"] == "Service"] == [
        expected,
        f"{expected}-headless",
        f"{expected}-metrics",
    ]


def test_the_longest_release_name_still_gives_valid_service_names() -> None:
    objects = rendering.render(name="a" * 53)
    assert max(len(o["metadata"]["name"]) for o in objects) <= 63
    assert rendering.only(objects, "Service", "a" * 53 + "-headless")
