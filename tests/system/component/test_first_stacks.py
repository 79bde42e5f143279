"""Previews the stacks of `stackctl init`: Triton on nodes that Karpenter starts, with a GPU and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spec.settings import Settings, load, read_config
from spec.settings.digest import serving_digest
from stackctl.init import profile
from stackctl.init.profile import Found
from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, previewed

FOUND = Found(
    account="123456789012",
    caller="arn:aws:iam::123456789012:user/moto",
    owner="moto",
    region="us-west-2",
    gpu_types=(),
    capacity="on-demand",
    image=f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}",
    api_cidrs=("198.51.100.7/32",),
    cost_center="trials",
)


def _first_stack(found: Found) -> tuple[Settings, Recording]:
    """Return the settings of the file that `init` writes, and its preview with a pinned release."""
    config: dict[str, Any] = read_config(profile.text(found), "Pulumi.dev.yaml")
    settings = load(config, "dev", today=TODAY)
    wants = settings.models.serving
    release = {"id": "9e0e34d8d342" + 52 * "0", "bytes": 15693, "models": dict.fromkeys(wants, 1)}
    config["triton-eks:models"]["release"] = {**release, "serving": serving_digest(settings)}
    return settings, previewed(ROOT, "dev", config)


@pytest.mark.parametrize(("capacity", "markets"), [("spot", ["spot", "on-demand"]), ("on-demand", ["on-demand"])])
def test_the_gpu_is_on_a_node_that_karpenter_may_start_for_tritons_pod(capacity: str, markets: list[str]) -> None:
    _, made = _first_stack(replace(FOUND, gpu_types=("g5.xlarge", "g5.2xlarge"), capacity=capacity))
    (pool,) = made.of_type("kubernetes:karpenter.sh/v1:NodePool")
    node = pool.checked["spec"]["template"]
    deployments = {item.checked["metadata"]["name"]: item for item in made.of_type("kubernetes:apps/v1:Deployment")}
    pod = deployments["triton"].checked["spec"]["template"]["spec"]
    # The pod's requirements for the scheduler: node labels, tolerated taints, GPUs.
    assert pod["nodeSelector"].items() <= node["metadata"]["labels"].items()
    (taint,) = node["spec"]["taints"]
    assert any(
        (one["key"], one.get("value"), one["effect"]) == (taint["key"], taint["value"], taint["effect"])
        for one in pod["tolerations"]
    )
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] in (1, "1")
    assert pool.checked["spec"]["limits"] == {"nvidia.com/gpu": "2"}
    required = {one["key"]: one["values"] for one in node["spec"]["requirements"]}
    assert sorted(required["karpenter.sh/capacity-type"]) == sorted(markets)
    assert required["node.kubernetes.io/instance-type"] == ["g5.xlarge", "g5.2xlarge"]
    # The only EKS node group that can fail is the system nodes' group.
    groups = made.of_type("aws:eks/nodeGroup:NodeGroup")
    assert ["system" in item.name for item in groups] == [True]


def test_a_stack_without_gpus_registers_nothing_for_them_and_triton_on_cpu_nodes() -> None:
    settings, made = _first_stack(FOUND)
    deployments = {item.checked["metadata"]["name"]: item for item in made.of_type("kubernetes:apps/v1:Deployment")}
    pod = deployments["triton"].checked["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["triton-eks/pool"] == "cpu"
    assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]
    pools = made.of_type("kubernetes:karpenter.sh/v1:NodePool")
    assert [item.checked["metadata"]["name"] for item in pools] == ["cpu"]
    releases = {item.checked["chart"] for item in made.of_type("kubernetes:helm.sh/v3:Release")}
    assert "karpenter" in {name.rpartition("/")[2] for name in releases}
    assert not any("nvidia" in name for name in releases)
    counted = {chart.name for chart in settings.installed_charts}
    assert {name.rpartition("/")[2] for name in releases} == counted, "the rules about room count the same"
