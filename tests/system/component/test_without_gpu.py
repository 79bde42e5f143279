"""The stack of `stackctl init --profile cpu`, previewed: Triton on nodes that Karpenter starts, and nothing for GPUs."""

from __future__ import annotations

from spec.settings import load, read_config
from spec.settings.digest import digest_of
from stackctl.init import profile
from stackctl.init.profile import Found
from tests.paths import ROOT
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


def test_a_stack_without_gpus_registers_nothing_for_them_and_triton_on_cpu_nodes() -> None:
    config = read_config(profile.text(FOUND), "Pulumi.dev.yaml")
    settings = load(config, "dev", today=TODAY)
    wants = settings.models.serving
    release = {"id": "9e0e34d8d342", "bytes": 15693, "models": dict.fromkeys(wants, 1)}
    config["triton-eks:models"]["release"] = {**release, "serving": digest_of(wants, ())}
    made = previewed(ROOT, "dev", config)
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
