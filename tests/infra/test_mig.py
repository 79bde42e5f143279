"""MIG from the stack file to the node: the pods' requests, the plugin's resources, and the partitioning of GPUs at boot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.aws import mig
from infra.aws.launch import user_data
from infra.aws.mig import MigLayout
from infra.platform import gpu_metrics
from infra.platform.device_plugin import sharing_configs
from spec import gpu_pool
from spec.catalog import INSTANCE_TYPES
from spec.settings.gpu import Sharing
from tests.spec.stack_config import complaints, settings
from twin.cluster.device_plugin import advertised

CUT = {"strategy": "mig", "profile": "2g.10gb", "replicas": 3}
ON_P4D: dict[str, Any] = {
    "gpu.pools[1].sharing": CUT,
    "gpu.pools[1].desired": 1,
    "triton.pool": "p4d",
    "triton.gpus": 1,
    "triton.replicas": 24,
    "models.release": None,
}
MODEL = {"device": "gpu", "sloP95Ms": 100, "expectedRate": 1, "peakRate": 2, "instances": 1, "gpuMemoryMiB": 9000}


def test_pods_ask_for_an_instance_and_not_for_a_gpu() -> None:
    pool = settings(ON_P4D).triton_nodes
    assert gpu_pool.gpu_resource(pool.sharing) == "nvidia.com/mig-2g.10gb"
    assert gpu_pool.labels(pool)["nvidia.com/device-plugin.config"] == "mig"
    assert "k8s.amazonaws.com/accelerator" not in gpu_pool.labels(pool)
    offered = gpu_pool.advertised(pool)
    assert (offered["nvidia.com/mig-2g.10gb"], offered["nvidia.com/gpu"]) == ("24", "0")


def test_a_node_holds_as_many_pods_as_instances() -> None:
    said = complaints({**ON_P4D, "triton.replicas": 25})
    assert said == [
        "triton.replicas: 25 pods do not fit the 1 desired nodes of pool 'p4d', 24 on each, and nothing adds nodes "
        "by itself; raise the pool's desired to 2, or use at most 24 replicas"
    ]


def test_a_pod_has_the_memory_of_its_instance() -> None:
    """A third of an A100 would be 13653 MiB."""
    assert settings({**ON_P4D, "models.serving": {"m": MODEL}})
    (said,) = complaints({**ON_P4D, "models.serving": {"m": {**MODEL, "gpuMemoryMiB": 9500}}})
    assert "has 9984 MiB" in said


def test_instances_add_capacity_so_that_nothing_is_warned_of() -> None:
    scaled = {
        **ON_P4D,
        "nodes.autoscaler": "cluster-autoscaler",
        "triton.autoscaler": "keda",
        "triton.replicas": None,
        "models.serving": {"m": MODEL},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 8, "prometheusUrl": "http://p:9090"},
    }
    assert [item.path for item in settings(scaled).warnings if item.path == "triton.autoscaler"] == []


def test_the_plugin_names_instances_after_their_profile() -> None:
    sharing = Sharing(strategy="mig", profile="2g.10gb", replicas=3)
    configs = {name: yaml.safe_load(text) for name, text in sharing_configs([sharing]).items()}
    assert configs["mig"] == {"version": "v1", "flags": {"migStrategy": "mixed"}}
    assert gpu_metrics.values([sharing]) == gpu_metrics.values([Sharing(strategy="exclusive", replicas=1)])


def test_the_twins_nodes_offer_what_pods_ask_for() -> None:
    pool = settings(ON_P4D).triton_nodes
    values = {"config": {"default": "exclusive", "map": sharing_configs([pool.sharing])}}
    offer = advertised(values, gpu_pool.labels(pool), [], 8, (CUT["profile"], CUT["replicas"]))
    assert offer.resources == {gpu_pool.gpu_resource(pool.sharing): 24}


@pytest.mark.parametrize("name", [name for name, known in INSTANCE_TYPES.items() if known.mig_profiles])
def test_instances_are_no_larger_than_their_gpu(name: str) -> None:
    known = INSTANCE_TYPES[name]
    for profile in known.mig_profiles.values():
        assert profile.instances * profile.memory_mib <= known.gpu_memory_gib * 1024


def test_only_gpus_that_can_be_cut_have_profiles() -> None:
    assert {known.family for known in INSTANCE_TYPES.values() if known.mig_profiles} == {"p4d", "p4de", "p5"}


def test_the_node_is_configured_and_its_gpus_are_cut_by_two_parts_of_the_user_data() -> None:
    archive = message_from_string(user_data(110, True, MigLayout("2g.10gb", 3)))
    assert archive.defects == []
    parts = archive.get_payload()
    assert [part.get_content_type() for part in parts] == ["application/node.eks.aws", "text/x-shellscript"]  # type: ignore[union-attr]
    lines = parts[1].get_payload().splitlines()  # type: ignore[union-attr]
    assert lines[:3] == ["#!/bin/bash", "MIG_PROFILE=2g.10gb", "MIG_INSTANCES=3"]
    assert len(user_data(110, True, MigLayout("2g.10gb", 3))) < 16_384, "EC2 takes no more"


def boot(folder: Path, *, enabled: bool, cut: bool = False) -> list[str]:
    """Return the service's changes through `nvidia-smi` on a node with GPUs in this state; the GPUs change at once."""
    mode = folder / "mode"
    mode.write_text("Enabled" if enabled else "Disabled")
    listed = "GPU 0: NVIDIA H100 (UUID: GPU-1)" + ("\\n  MIG 2g.10gb Device 0: (UUID: MIG-1)" if cut else "")
    smi = folder / "nvidia-smi"
    smi.write_text(
        "#!/bin/bash\n"
        f'case "$*" in\n--query-gpu=*) cat {mode}; echo; cat {mode}; echo ;;\n'
        f'-L) printf "{listed}\\n" ;;\n'
        f'-mig\\ 1) echo "$*" >>{folder}/asked; echo -n Enabled >{mode} ;;\n'
        f'*) echo "$*" >>{folder}/asked ;;\nesac\n'
    )
    smi.chmod(0o755)
    script = mig.boot_script(MigLayout("2g.10gb", 3))
    environment: Mapping[str, str] = {"PATH": f"{folder}:{os.defpath}"}
    # The script has this name after it has installed itself.
    argv = ["bash", "-c", script, "/usr/local/sbin/mig-layout"]
    subprocess.run(argv, env=environment, check=True, timeout=30, capture_output=True)
    asked = folder / "asked"
    return asked.read_text().splitlines() if asked.exists() else []


def test_gpus_are_cut_at_the_first_boot(tmp_path: Path) -> None:
    assert boot(tmp_path, enabled=False) == ["-mig 1", "mig -cgi 2g.10gb,2g.10gb,2g.10gb -C"]


def test_gpus_are_cut_again_after_a_reboot_which_the_mode_survives_and_the_instances_do_not(tmp_path: Path) -> None:
    assert boot(tmp_path, enabled=True) == ["mig -cgi 2g.10gb,2g.10gb,2g.10gb -C"]


def test_gpus_that_are_cut_are_left_alone(tmp_path: Path) -> None:
    assert boot(tmp_path, enabled=True, cut=True) == []
