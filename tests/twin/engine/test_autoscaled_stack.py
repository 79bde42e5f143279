"""The stack of `make up AUTOSCALING=1`: requested, removed again, valid, and released with a slow model."""

from pathlib import Path

import pytest

from examples.packaged import build
from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.repository.load import load
from spec import helm_value_rules
from spec.scaling.signal import signals
from spec.settings import load as settings_of
from tests.system.e2e import pinned
from twin.charts import registry
from twin.engine import stack_files
from twin.host.home import TwinHome
from twin.services import release_sources

PART_BYTES = 8 * 1024 * 1024


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    return TwinHome(tmp_path / "home")


@pytest.fixture
def autoscaled(home: TwinHome) -> TwinHome:
    stack_files.ask_for_autoscaling(home, True)
    return home


def test_the_stack_is_the_tracked_one_until_autoscaling_is_asked_for_and_again_when_it_is_not(home: TwinHome) -> None:
    tracked = stack_files.config(home, "local")
    stack_files.ask_for_autoscaling(home, True)
    assert stack_files.config(home, "local")["triton-eks:triton"]["autoscaler"] == "keda"
    stack_files.ask_for_autoscaling(home, False)
    assert stack_files.config(home, "local") == tracked


def test_it_is_merged_into_the_tracked_one_and_takes_away_what_is_null(home: TwinHome) -> None:
    tracked = stack_files.config(home, "local")
    stack_files.ask_for_autoscaling(home, True)
    found = stack_files.config(home, "local")
    assert tracked["triton-eks:triton"].keys() - found["triton-eks:triton"].keys() == {"replicas"}
    assert found["triton-eks:triton"]["image"] == tracked["triton-eks:triton"]["image"]
    assert found["triton-eks:models"]["serving"].keys() - tracked["triton-eks:models"]["serving"].keys() == {"timed_batch"}
    assert len(found["triton-eks:gpu"]["pools"]) == len(tracked["triton-eks:gpu"]["pools"])


def test_no_other_stack_changes(autoscaled: TwinHome, tmp_path: Path) -> None:
    for stack in ("dev", "staging", "prod"):
        assert stack_files.config(autoscaled, stack) == stack_files.config(TwinHome(tmp_path / "other"), stack)


def test_it_is_a_stack_as_the_program_wants_it(autoscaled: TwinHome) -> None:
    settings = settings_of(stack_files.config(autoscaled, "local"), "local")
    assert (settings.triton.autoscaler, settings.triton.replicas) == ("keda", None)
    assert settings.worker is not None
    assert (settings.worker.autoscaler, settings.worker.replicas, settings.worker.min_replicas) == ("keda", None, 0)
    assert settings.autoscaling is not None
    assert settings.triton_nodes.desired == settings.autoscaling.max_replicas, "nothing starts nodes on the twin"
    helm_value_rules.check(settings)
    named = {signal.name: signal.target for signal in signals(settings)}
    assert (named["pending-timed_batch"], named["busy-timed_batch"]) == (8, 0.2)


def test_asking_again_keeps_the_release_and_changing_ones_mind_drops_it(home: TwinHome) -> None:
    stack_files.pin(home, "local", "triton-eks:models.release", {"id": "a" * 64})
    stack_files.pin(home, "local", "triton-eks:models.s3Endpoint", "http://127.0.0.1:5000")
    stack_files.ask_for_autoscaling(home, False)
    assert stack_files.pinned_release(home, "local") == {"id": "a" * 64}
    stack_files.ask_for_autoscaling(home, True)
    assert stack_files.pinned_release(home, "local") is None
    assert stack_files.config(home, "local")["triton-eks:models"]["s3Endpoint"] == "http://127.0.0.1:5000"


def test_what_it_releases_is_the_samples_and_the_slow_model_beside_the_stack_that_wants_it(autoscaled: TwinHome) -> None:
    models = release_sources.prepare(autoscaled)
    assert models == release_sources.prepare(autoscaled), "a second time, over what the first one made"
    assert [model.name for model in load(models)] == ["classify", "normalize", "pipeline", "timed_batch"]
    stacks = models.parent / "stacks"
    assert [path.name for path in stacks.iterdir()] == ["Pulumi.local.yaml"]
    plan = prepare(models, PART_BYTES, Silent(), stacks)
    made = {key for key in plan.objects if "/configs/" in key}
    assert made == {f"{name}/configs/local.pbtxt" for name in ("classify", "normalize", "timed_batch")}


def test_with_a_gateway_the_samples_are_released_for_its_own_stack(home: TwinHome) -> None:
    stack_files.ask_for_gateway(home, True)

    models = release_sources.prepare(home)

    assert [model.name for model in load(models)] == ["classify", "normalize", "pipeline"]
    assert [path.name for path in (models.parent / "stacks").iterdir()] == ["Pulumi.local.yaml"]


def test_without_autoscaling_the_models_that_read_pictures_are_beside_the_samples(
    home: TwinHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PACKAGES", tmp_path)

    with pytest.raises(build.NotBuilt) as refused:
        release_sources.prepare(home)

    assert "; `make models` puts the packages there that have them" in str(refused.value)


def test_only_a_stack_that_is_monitored_and_scaled_needs_more_programs(autoscaled: TwinHome, tmp_path: Path) -> None:
    tracked = stack_files.config(TwinHome(tmp_path / "other"), "local")
    assert registry.families(tracked) == ()
    assert registry.families(stack_files.config(autoscaled, "local")) == ("prometheus", "prometheus-operator", "keda")
    worker = {"triton-eks:worker": {"autoscaler": "keda"}, "triton-eks:triton": {"autoscaler": "none"}}
    assert registry.families(worker) == ("keda",)
    scaled = {"minReplicas": 1, "maxReplicas": 2}
    for config in ({"triton-eks:autoscaling": scaled}, {"triton-eks:fleets": [{"autoscaling": scaled}]}):
        assert registry.families(config) == ("keda", "karpenter"), "who scales nodes where pods are scaled"
    assert registry.families({"triton-eks:worker": {"maxReplicas": 2}}) == ("keda",)
    assert registry.families({"triton-eks:fleets": [{"replicas": 1}, 3]}) == ()
    stack_files.pin(autoscaled, "local", "triton-eks:triton.autoscaler", "hpa")
    both = registry.families(stack_files.config(autoscaled, "local"))
    assert both == ("prometheus", "prometheus-operator", "keda", "prometheus-adapter"), "KEDA is there for the workers"


@pytest.mark.parametrize(
    ("asked", "pins"),
    [
        ("", pinned.MONITORING),
        ("autoscaling", pinned.HPA),
        ("", pinned.OLD_KUBERNETES),
        ("", pinned.LOCAL_DISK),
        ("", pinned.FLEETS_IN_PLACE),
        ("karpenter", pinned.PACKED),
        ("gateway", {}),
        ("gateway", pinned.GATEWAY),
        ("gateway", pinned.KEYS),
        ("gateway", pinned.BLUE_GREEN),
        ("gateway", {**pinned.FLEETS, "triton-eks:fleets": pinned.TWO_FLEETS[0]}),
        ("gateway", {**pinned.FLEETS, "triton-eks:fleets": pinned.TWO_FLEETS[1]}),
        ("gateway", {**pinned.FLEETS, "triton-eks:fleets": pinned.TWO_FLEETS[2]}),
    ],
    ids=[
        "monitoring",
        "hpa",
        "upgrades",
        "delivery",
        "delivery-in-place",
        "packed-nodes",
        "gateway",
        "monitored-gateway",
        "clients",
        "blue-green",
        "fleets",
        "both-have-it",
        "moved",
    ],
)
def test_the_stack_that_a_slow_test_brings_up_is_valid(home: TwinHome, asked: str, pins: dict[str, object]) -> None:
    stack_files.ask_for_autoscaling(home, asked == "autoscaling")
    stack_files.ask_for_gateway(home, asked == "gateway")
    stack_files.ask_for_karpenter(home, asked == "karpenter")
    for key, value in pins.items():
        stack_files.pin(home, "local", key, value)
    settings_of(stack_files.config(home, "local"), "local")
