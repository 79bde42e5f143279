"""Our values through the real chart of Karpenter, which its Go module ships, and real Helm."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from infra.platform import karpenter
from infra.versions import KUBERNETES
from tests.chart.rendering import only
from tests.unit.test_karpenter_pools import karpenter_args
from twin import chart_crds, helm
from twin.tools import ToolError

Object = dict[str, Any]


def render(values: Mapping[str, Any], version: str) -> list[Object]:
    try:
        chart = chart_crds.folder("karpenter-crd") / "charts" / "karpenter"
    except ToolError as error:
        pytest.skip(str(error))
    return helm.render(
        chart,
        name="karpenter",
        namespace="kube-system",
        values=values,
        kube_version=f"v{version}.0",
        api_versions=["monitoring.coreos.com/v1"],
    )


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_controller_is_what_the_stack_says(version: str) -> None:
    objects = render(karpenter.values(karpenter_args(), "triton-staging-interruptions"), version)
    deployment = only(objects, "Deployment", "karpenter")
    pod = deployment["spec"]["template"]["spec"]
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert env["CLUSTER_NAME"] == "triton-staging"
    assert env["INTERRUPTION_QUEUE"] == "triton-staging-interruptions"
    assert env["EKS_CONTROL_PLANE"] == "true"
    assert {"ReservedCapacity=true", "NodeRepair=true"} <= set(env["FEATURE_GATES"].split(","))
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}
    assert deployment["spec"]["replicas"] == 2
    assert only(objects, "ServiceAccount")["metadata"]["name"] == pod["serviceAccountName"] == karpenter.CONTROLLER.name
    assert only(objects, "ServiceMonitor")


def test_every_value_is_one_that_the_chart_has() -> None:
    """Helm takes any key, and one that is misspelt changes nothing."""
    try:
        known = yaml.safe_load((chart_crds.folder("karpenter-crd") / "charts" / "karpenter" / "values.yaml").read_text())
    except ToolError as error:
        pytest.skip(str(error))
    assert unknown(karpenter.values(karpenter_args(), "q"), known) == []


def unknown(values: Mapping[str, Any], known: Mapping[str, Any], path: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        if key not in known:
            found.append(f"{path}{key}")
        elif isinstance(value, Mapping) and known[key]:
            found += unknown(value, known[key], f"{path}{key}.")
    return found
