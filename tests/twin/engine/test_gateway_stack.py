"""The stack of `make up GATEWAY=1`: requested, removed again, valid, also together with AUTOSCALING=1."""

from pathlib import Path

import pytest

from spec.settings import load
from twin.charts import registry
from twin.engine import stack_files
from twin.host.home import TwinHome


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    return TwinHome(tmp_path / "home")


def test_the_stack_has_a_gateway_until_it_is_not_asked_for_any_more(home: TwinHome) -> None:
    tracked = stack_files.config(home, "local")
    stack_files.ask_for_gateway(home, False)
    assert stack_files.config(home, "local") == tracked
    stack_files.ask_for_gateway(home, True)
    assert "triton-eks:gateway" in stack_files.config(home, "local")
    assert "envoy-gateway" in registry.families(stack_files.config(home, "local"))
    stack_files.ask_for_gateway(home, False)
    assert stack_files.config(home, "local") == tracked
    assert "envoy-gateway" not in registry.families(tracked)


@pytest.mark.parametrize("autoscaling", [False, True], ids=["alone", "autoscaled"])
def test_it_is_a_stack_as_the_program_wants_it(home: TwinHome, autoscaling: bool) -> None:
    stack_files.ask_for_gateway(home, True)
    stack_files.ask_for_autoscaling(home, autoscaling)
    settings = load(stack_files.config(home, "local"), "local")
    assert settings.gateway is not None
    assert (settings.gateway.replicas, settings.gateway.encrypted) == (2, False)
    assert settings.triton.replicas == (None if autoscaling else 2)
    assert settings.gpu.pools[0].desired > (settings.triton.replicas or 0), "a new pod of a rolling update has a node"
