"""From an autoscaler back to a fixed number of pods, with a fake API server, KEDA and HorizontalPodAutoscaler."""

from pathlib import Path
from typing import Any, cast

import pytest

from spec.settings.source import load
from twin.cluster.kube_api import KubeClient
from twin.commands import fixed_pods
from twin.engine import stack_files
from twin.host.home import TwinHome
from twin.host.processes import DeadlinePassed

SCALED = "/apis/keda.sh/v1alpha1/namespaces/triton/scaledobjects/triton"
AUTOSCALER = "/apis/autoscaling/v2/namespaces/triton/horizontalpodautoscalers/triton"


class Played:
    """A cluster with a Deployment of 3 pods. Its autoscaler, the object at `scaled`, `follows` its bounds, or is stuck."""

    def __init__(self, *, scaled: str | None = SCALED, follows: bool = True) -> None:
        self.bounds = {"minReplicaCount": 1, "maxReplicaCount": 4}
        self.scaled, self.follows, self.pods = scaled, follows, 3
        self.annotations: dict[str, str] = {}
        self.patched: list[str] = []

    def kind(self, api_version: str, kind: str) -> object | None:
        return object() if self.scaled == SCALED else None

    def find(self, path: str) -> dict[str, Any] | None:
        return {"metadata": {"annotations": self.annotations}, "spec": self.bounds} if path == self.scaled else None

    def delete(self, path: str) -> None:
        assert path == self.scaled
        self.scaled = None

    def patch(self, path: str, body: dict[str, Any], kind: str) -> None:
        self.patched.append(path)
        self.bounds, self.annotations = body["spec"], body["metadata"]["annotations"]
        if self.follows:
            self.pods = max(self.bounds.values())

    def get(self, path: str) -> dict[str, Any]:
        if path.endswith("/deployments/triton"):
            return {"spec": {"replicas": self.pods}}
        low, high = self.bounds.values()
        other = {"scaleTargetRef": {"name": "other"}, "minReplicas": 1, "maxReplicas": 9}
        return {
            "items": [
                {"spec": other},
                {"spec": {**other, "scaleTargetRef": {"name": "triton"}, "minReplicas": low, "maxReplicas": high}},
            ]
        }


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    return TwinHome(tmp_path / "home")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(fixed_pods, "_SECONDS", 0.0)
    return []


def hand_back(home: TwinHome, played: Played, said: list[str]) -> None:
    stack = stack_files.STACK
    fixed_pods.hand_back(cast(KubeClient, played), load(stack_files.config(home, stack), stack), said.append)


def test_the_autoscaler_that_goes_brings_the_pods_to_the_number_of_the_stack(home: TwinHome, said: list[str]) -> None:
    played = Played()
    hand_back(home, played, said)
    assert (played.patched, played.bounds) == ([SCALED], {"minReplicaCount": 1, "maxReplicaCount": 1})
    assert played.pods == 1
    assert said == ["triton: KEDA brings its pods to 1, the number of the stack, before it goes"]


def take_back(home: TwinHome, played: Played, said: list[str]) -> None:
    stack = stack_files.STACK
    fixed_pods.take_back(cast(KubeClient, played), load(stack_files.config(home, stack), stack), said.append)


@pytest.mark.parametrize("scaled", [SCALED, AUTOSCALER])
def test_one_that_was_handed_back_and_is_wanted_after_all_is_made_anew(home: TwinHome, said: list[str], scaled: str) -> None:
    played = Played(scaled=scaled)
    hand_back(home, played, [])
    stack_files.ask_for_autoscaling(home, True)
    made = [{"type": kind, "id": "triton/triton"} for kind, _, plural in fixed_pods._KINDS if plural in scaled]
    assert not fixed_pods.is_gone(cast(KubeClient, played), made)
    take_back(home, played, said)
    assert played.scaled is None
    assert fixed_pods.is_gone(cast(KubeClient, played), made)
    assert not fixed_pods.is_gone(cast(KubeClient, played), [{"type": "kubernetes:core/v1:Service", "id": "triton/triton"}])
    assert said == ["triton: its autoscaler is made anew; an `up` without one was ended before that one had gone"]


def test_one_that_nobody_has_touched_stays_as_it_is(home: TwinHome, said: list[str]) -> None:
    stack_files.ask_for_autoscaling(home, True)
    played = Played()
    take_back(home, played, said)
    assert (played.scaled, said) == (SCALED, [])


def test_so_does_one_without_keda(home: TwinHome, said: list[str]) -> None:
    played = Played(scaled=AUTOSCALER)
    hand_back(home, played, said)
    assert (played.patched, played.bounds) == ([AUTOSCALER], {"minReplicas": 1, "maxReplicas": 1})
    assert said == [
        "triton: the HorizontalPodAutoscaler brings its pods to 1, the number of the stack, before it goes",
    ]


def test_without_an_autoscaler_nothing_is_done(home: TwinHome, said: list[str]) -> None:
    played = Played(scaled=None)
    hand_back(home, played, said)
    assert (played.patched, said) == ([], [])


def test_a_stack_that_still_has_its_autoscaler_keeps_it(home: TwinHome, said: list[str]) -> None:
    stack_files.ask_for_autoscaling(home, True)
    played = Played()
    hand_back(home, played, said)
    assert (played.patched, said) == ([], [])


def test_an_autoscaler_that_does_not_follow_is_told(home: TwinHome, said: list[str]) -> None:
    with pytest.raises(DeadlinePassed, match="waited 0 s in vain for triton to have 1 pods by its autoscaler"):
        hand_back(home, Played(follows=False), said)
