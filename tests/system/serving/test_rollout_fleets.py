"""`modelctl rollout` on two fleets of real servers, which share one model and have one separate model each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.rollout_servers import local_servers
from modelctl.release.publish import release
from modelctl.rollout import parity
from modelctl.rollout.controller import Controller, Outcome, Result, Wanted
from modelctl.rollout.fleet import ServedVersion
from modelctl.rollout.lease import Lease
from modelctl.rollout.plan import Refused
from modelctl.rollout.several_fleets import SeveralFleets
from modelctl.store.bucket import Store, open_store
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from tests.system.serving.conftest import BUCKET
from tests.system.serving.rollout_driver import LIMITS
from tests.system.serving.rollout_releases import CONFIG, code, golden

FLEETS = {"triton-a": ("shared", "left"), "triton-b": ("shared", "right")}
PODS = {"triton-a": 2, "triton-b": 1}


@dataclass
class Stack:
    """Two fleets that serve version 1 of all models."""

    store: Store
    fleets: SeveralFleets
    directory: Path
    parts: dict[str, parity.Fleet]

    def release(self, versions: dict[str, int], *, wrong: str = "") -> Manifest:
        """Release these versions; the model `wrong` gives another answer to its golden inference than the release says."""
        directory = self.directory / "-".join(f"{name}{version}" for name, version in versions.items())
        for name, version in versions.items():
            folder = directory / name / str(version)
            folder.mkdir(parents=True)
            (directory / name / "config.pbtxt").write_text(CONFIG)
            (folder / "model.py").write_text(code(version, plus=7 if name == wrong else None))
            (folder / "golden.json").write_text(golden(version))
        return release(directory, self.store)

    def rollout(self, to: Manifest) -> Result:
        models = frozenset(name for names in FLEETS.values() for name in names)
        controller = Controller(self.store, self.fleets, Wanted("local", on_fleets=models), limits=LIMITS)
        with Lease(LiveRepository(self.store)) as lease:
            return controller.rollout(to.id, lease)

    def serves(self) -> dict[str, dict[str, list[int]]]:
        """Return the versions of each model, by fleet, whose pods are alike."""
        states = parity.states(self.parts)
        assert parity.differences(states) == []
        assert {name: sum(state.fleet == name for state in states) for name in PODS} == PODS
        return {state.fleet: {served.model: served.versions for served in state.models} for state in states}


@pytest.fixture
def stack(moto: str, tmp_path: Path, triton_cache: Path) -> Iterator[Stack]:
    store = open_store(BUCKET, moto)
    with ExitStack() as servers:
        started = {
            name: servers.enter_context(
                local_servers(
                    tmp_path / name,
                    triton_cache,
                    f"s3://{moto}/{BUCKET}/live",
                    ("--model-control-mode=explicit", *(f"--load-model={model}" for model in models)),
                )
            )
            for name, models in FLEETS.items()
        }
        fleets = SeveralFleets({name: (one.fleet, frozenset(FLEETS[name])) for name, one in started.items()})
        stack = Stack(store, fleets, tmp_path / "models", {name: one.fleet for name, one in started.items()})
        assert stack.rollout(stack.release({"shared": 1, "left": 1, "right": 1})).outcome is Outcome.SEEDED
        for name, one in started.items():
            one.start(PODS[name])
            one.until_ready("shared")  # so the next one gets other addresses
        yield stack


def test_each_pod_gets_the_versions_of_its_own_models_and_all_return_when_one_of_them_is_wrong(stack: Stack) -> None:
    assert stack.rollout(stack.release({"shared": 2, "left": 2, "right": 1})).outcome is Outcome.DONE
    second = {"triton-a": {"left": [2], "shared": [2]}, "triton-b": {"right": [1], "shared": [2]}}
    assert stack.serves() == second
    told = {model: ServedVersion(stable=version) for model, version in {"left": 2, "right": 1, "shared": 2}.items()}
    assert stack.fleets.served() == told

    undone = stack.rollout(stack.release({"shared": 3, "left": 3, "right": 3}, wrong="right"))
    assert undone.outcome is Outcome.UNDONE
    assert undone.reason is not None and "right version 3 answers wrongly" in undone.reason
    assert stack.serves() == second
    assert stack.fleets.served() == told

    with pytest.raises(Refused) as refused:
        stack.rollout(stack.release({"shared": 2, "left": 2, "right": 1, "extra": 1}))
    assert refused.value.reasons == ["extra: no fleet of local serves it; add it to the models of one"]
