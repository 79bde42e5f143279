"""The Helm values of the NVIDIA device plugin: named configurations, and the nodes of its pods and of NFD's pods.

The chart cannot be pulled here: the tests compare its values with docs/facts/gpu-nodes.md.
"""

from typing import Any

import pytest
import yaml

from infra.platform.device_plugin import sharing_configs, values
from spec import gpu_pool
from spec.names import DEVICE_PLUGIN_NAMESPACE
from spec.settings import Sharing, load_stack_file
from tests.paths import ROOT
from tests.spec.stack_config import TODAY

pytestmark = pytest.mark.usefixtures("in_the_project")

EXCLUSIVE = Sharing(strategy="exclusive", replicas=1)
TIME_SLICED = Sharing(strategy="time-slicing", replicas=4)
MPS = Sharing(strategy="mps", replicas=2)


def _read(sharing: list[Sharing]) -> dict[str, Any]:
    return {name: yaml.safe_load(text) for name, text in sharing_configs(sharing).items()}


def test_whole_gpus_need_one_configuration_without_sharing() -> None:
    assert _read([EXCLUSIVE, EXCLUSIVE]) == {"exclusive": {"version": "v1", "flags": {"migStrategy": "none"}}}


def test_a_time_sliced_gpu_is_renamed_and_refuses_more_than_one_share_per_pod() -> None:
    assert _read([TIME_SLICED])["ts4"] == {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
            }
        },
    }


def test_a_gpu_under_mps_is_renamed() -> None:
    assert _read([MPS])["mps2"] == {
        "version": "v1",
        "sharing": {"mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}},
    }


def test_every_way_of_sharing_in_use_is_configured_once_and_in_a_fixed_order() -> None:
    expected = ["exclusive", "mps2", "ts4"]
    assert list(sharing_configs([TIME_SLICED, MPS, TIME_SLICED])) == expected
    assert list(sharing_configs([MPS, EXCLUSIVE, TIME_SLICED])) == expected


def test_the_default_is_a_configuration_that_exists_even_when_no_pool_uses_it() -> None:
    """The chart refuses several configurations without a default (its validation.yml)."""
    config = values([TIME_SLICED, MPS])["config"]
    assert config["default"] == "exclusive"
    assert config["default"] in config["map"]


@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod"])
def test_the_configuration_that_a_node_is_labelled_with_exists(stack: str) -> None:
    pools = load_stack_file(ROOT / "stacks" / f"Pulumi.{stack}.yaml", today=TODAY).gpu.pools
    labelled = {gpu_pool.labels(pool)["nvidia.com/device-plugin.config"] for pool in pools}
    assert labelled <= values([pool.sharing for pool in pools])["config"]["map"].keys()


@pytest.mark.parametrize(
    ("sharing", "discovery"),
    [([EXCLUSIVE], False), ([EXCLUSIVE, TIME_SLICED], False), ([EXCLUSIVE, MPS], True), ([MPS, TIME_SLICED], True)],
    ids=str,
)
def test_feature_discovery_runs_where_mps_asks_for_it_and_nowhere_else(sharing: list[Sharing], discovery: bool) -> None:
    assert values(sharing)["gfd"] == {"enabled": discovery}


@pytest.mark.parametrize("sharing", [[EXCLUSIVE], [MPS]], ids=str)
def test_plugin_and_discovery_tolerate_the_taint_of_gpu_nodes(sharing: list[Sharing]) -> None:
    read = values(sharing)
    assert read["tolerations"] == [gpu_pool.gpu_toleration()]
    assert read["nfd"]["worker"]["tolerations"] == [gpu_pool.gpu_toleration()]


def test_the_plugin_selects_a_label_that_every_gpu_node_carries() -> None:
    pools = load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml", today=TODAY).gpu.pools
    selected = values([])["nodeSelector"]
    assert selected == {"nvidia.com/gpu.present": "true"}
    assert {pool.sharing.strategy for pool in pools} == {"exclusive", "time-slicing"}
    assert all(selected.items() <= gpu_pool.labels(pool).items() for pool in pools)


def test_what_people_edited_in_the_base_file_stays() -> None:
    read = values([MPS])
    base = yaml.safe_load((ROOT / "helm-values" / "nvidia-device-plugin" / "base.yaml").read_text())
    assert {key: value for key, value in read.items() if key not in ("config", "gfd")} == {
        key: value for key, value in base.items() if key != "gfd"
    }
    assert read["failOnInitError"] is True


def test_the_namespace_is_one_that_the_chart_accepts() -> None:
    assert DEVICE_PLUGIN_NAMESPACE not in ("default", "")
