"""Renders the Triton chart for tests: with real value files, the program's computed values, and lookups."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spec import helm_values
from spec.helm_values import merge
from tests.paths import ROOT
from twin.releases import helm

CHART = ROOT / "charts" / "triton"
VALUE_FILES = ROOT / "helm-values" / "triton"
ENVIRONMENTS = ("local", "dev", "staging", "prod")
RELEASE_ID = "3f2a9c1b7d04" + 52 * "0"
GIB = 1024**3

Object = dict[str, Any]

COMPUTED: Mapping[str, Any] = {
    "image": {"repository": "nvcr.io/nvidia/tritonserver", "digest": "sha256:" + "0123456789abcdef" * 4},
    "replicaCount": 2,
    "gpu": {"count": 1, "resourceName": "nvidia.com/gpu"},
    "resources": {"cpu": "3", "memory": "12Gi"},
    "modelRepository": {"s3": {"bucket": "triton-prod-models", "prefix": f"releases/{RELEASE_ID}", "region": "us-west-2"}},
    "release": {"id": RELEASE_ID, "bytes": 5 * GIB, "models": {"resnet50": 1, "pipeline": 3}},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/triton"}},
    "nodeSelector": {"triton-eks/pool": "g5"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}
"""The values that the Pulumi program computes for one environment."""

IN_PLACE: Mapping[str, Any] = {"rollout": {"mode": "in-place"}, "modelRepository": {"s3": {"prefix": "live"}}}
"""The values that render the chart for in-place rollouts."""


def render(
    overrides: Mapping[str, Any] | None = None,
    *,
    environment: str | None = None,
    name: str = "triton",
    kube_version: str = helm.DEFAULT_KUBE_VERSION,
) -> list[Object]:
    """Render the chart with the computed values and `overrides`, on top of an environment's value files if it is named.

    `release.models` of the overrides replaces the computed map; all other maps are merged.
    """
    values = merge(COMPUTED, overrides or {})
    models = (overrides or {}).get("release", {}).get("models")
    if models is not None:
        values["release"]["models"] = models
    return render_values(values, environment=environment, name=name, kube_version=kube_version)


def render_values(
    values: Mapping[str, Any],
    *,
    environment: str | None = None,
    name: str = "triton",
    kube_version: str = helm.DEFAULT_KUBE_VERSION,
) -> list[Object]:
    """Render the chart with exactly these values, on top of an environment's value files if it is named."""
    return helm.render(
        CHART,
        name=name,
        namespace="triton",
        values=values,
        value_files=value_files(environment) if environment else (),
        kube_version=kube_version,
    )


def value_files(environment: str) -> list[Path]:
    return [ROOT / path for path in helm_values.value_files("triton", environment, ROOT)]


def only(objects: Iterable[Object], kind: str, name: str | None = None) -> Object:
    """Return the only object of a kind (and name). Fails the test if there are none or several."""
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}, name {name}"
    return found[0]


def kinds(objects: Iterable[Object]) -> list[str]:
    return [o["kind"] for o in objects]


def deployment(overrides: Mapping[str, Any] | None = None, **options: Any) -> Object:
    return only(render(overrides, **options), "Deployment")


def pod(overrides: Mapping[str, Any] | None = None, **options: Any) -> Object:
    return deployment(overrides, **options)["spec"]["template"]["spec"]


def container(overrides: Mapping[str, Any] | None = None, **options: Any) -> Object:
    """Return the container of the server."""
    return pod(overrides, **options)["containers"][0]


def env(overrides: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Object]:
    """Return the environment variables by name, each without its name."""
    return {
        entry["name"]: {key: value for key, value in entry.items() if key != "name"}
        for entry in container(overrides, **options)["env"]
    }


def flag(container: Object, name: str) -> str:
    """Return the value of a flag. Fails the test unless the flag is there exactly once."""
    (found,) = [arg.partition("=")[2] for arg in container["args"] if arg.partition("=")[0] == name]
    return found
