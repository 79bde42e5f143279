"""Compare the models that the pods of a fleet serve, by config hash and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.pod_client import PodClient, PodProblem

_AT_ONCE = 8


@dataclass(frozen=True)
class ServedModel:
    """A model on one pod: the hash of its config by version."""

    model: str
    hashes: dict[int, str]

    @property
    def versions(self) -> list[int]:
        return sorted(self.hashes)


@dataclass(frozen=True)
class PodState:
    """The models that one pod of a fleet serves. `problem` says why they cannot be read."""

    fleet: str
    pod: str
    models: tuple[ServedModel, ...] = ()
    problem: str | None = None


def states(fleets: Mapping[str, Fleet]) -> list[PodState]:
    """Return the state of each pod of each fleet. Raises FleetError; for a pod that does not respond, the state has a
    problem."""
    pods = [(name, pod) for name, fleet in fleets.items() for pod in fleet.pods()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda one: _state(*one), pods))


def differences(found: Sequence[PodState]) -> list[str]:
    """Return the differences between pods of the same fleet, a sentence each. Empty when there are none."""
    sentences = [state.problem for state in found if state.problem is not None]
    seen = [state for state in found if state.problem is None]
    for fleet, model in sorted({(state.fleet, served.model) for state in seen for served in state.models}):
        by_hashes: dict[str, list[str]] = {}
        for state in (state for state in seen if state.fleet == fleet):
            served = next((served for served in state.models if served.model == model), None)
            by_hashes.setdefault(_describe(served), []).append(state.pod)
        if len(by_hashes) > 1:
            groups = "; ".join(f"{what} on {', '.join(pods)}" for what, pods in sorted(by_hashes.items()))
            sentences.append(f"{model}: {groups}")
    return sentences


def _describe(served: ServedModel | None) -> str:
    if served is None:
        return "not served"
    return ", ".join(f"version {version} with config {hash_}" for version, hash_ in sorted(served.hashes.items()))


def _state(fleet: str, pod: Pod) -> PodState:
    try:
        with PodClient(pod) as client:
            models = tuple(
                ServedModel(model, {version: client.config_hash(model, version) for version in versions})
                for model, versions in client.ready_versions().items()
            )
    except PodProblem as problem:
        return PodState(fleet, pod.name, problem=str(problem))
    return PodState(fleet, pod.name, models)
