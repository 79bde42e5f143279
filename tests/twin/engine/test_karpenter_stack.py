"""The stack of `make up KARPENTER=1`: requested, removed again, valid, also together with the others."""

from pathlib import Path
from typing import Any

import pytest

from spec.settings import load
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import KARPENTER, SCALED
from twin.charts import registry
from twin.engine import stack_files
from twin.host.home import TwinHome
from twin.releases.scalers import node_scaler


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    return TwinHome(tmp_path / "home")


def test_the_stack_has_karpenter_until_it_is_not_asked_for_any_more(home: TwinHome) -> None:
    tracked = stack_files.config(home, "local")
    assert registry.families(tracked) == ()
    stack_files.ask_for_karpenter(home, True)
    assert registry.families(stack_files.config(home, "local")) == ("karpenter",)
    stack_files.ask_for_karpenter(home, False)
    assert stack_files.config(home, "local") == tracked


@pytest.mark.parametrize("autoscaling", [False, True], ids=["", "autoscaled"])
@pytest.mark.parametrize("gateway", [False, True], ids=["", "with a gateway"])
def test_it_is_a_stack_as_the_program_wants_it(home: TwinHome, autoscaling: bool, gateway: bool) -> None:
    stack_files.ask_for_karpenter(home, True)
    stack_files.ask_for_autoscaling(home, autoscaling)
    stack_files.ask_for_gateway(home, gateway)
    found = load(stack_files.config(home, "local"), "local")
    assert found.node_autoscaler == "karpenter"
    assert [(pool.name, pool.min, pool.desired) for pool in found.gpu.pools] == [("g5", 0, 0)]


@pytest.mark.parametrize("changes", [{}, KARPENTER, SCALED, {"nodes.autoscaler": "cluster-autoscaler"}], ids=str)
def test_who_changes_the_number_of_nodes_is_read_as_the_settings_read_it(changes: dict[str, Any]) -> None:
    found = settings(changes)
    triton = {"autoscaler": found.triton.autoscaler}
    config: dict[str, Any] = {"triton-eks:triton": triton, "triton-eks:nodes": {"autoscaler": found.nodes.autoscaler}}
    if found.autoscaling is not None:
        config["triton-eks:autoscaling"] = {}
    assert node_scaler(config) == found.node_autoscaler
