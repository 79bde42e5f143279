"""Golden inferences: send the release's requests to each pod of a fleet, and check the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from modelctl.repository.golden import Golden
from modelctl.rollout import configs
from modelctl.rollout.fleet import Fleet
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import WITHOUT_TIME, PodClient, PodProblem, PodRefuses


class WrongAnswer(Exception):
    """A pod's answer differs from the release's golden inference; the text says which."""


def goldens(release: StackRelease, models: Iterable[str]) -> dict[str, Golden]:
    """Return the golden inferences of these models. Left out are models that a single request cannot check.

    Raises StoreError and GoldenError.
    """
    return {
        model: golden
        for model in models
        if configs.keeps_state(release.config(model)) is None and (golden := release.golden(model)) is not None
    }


def wrong_answers(client: PodClient, asked: Mapping[str, Golden], versions: Mapping[str, int]) -> list[str]:
    """Return the errors in a pod's answers. Raises PodDown.

    Raises PodHangs and PodOverloaded when the other answers are right.
    """
    wrong = []
    busy: PodProblem | None = None
    for model, golden in asked.items():
        try:
            answer = client.infer(model, versions[model], golden.request())
        except WITHOUT_TIME as problem:
            busy = problem
            continue
        except PodRefuses as problem:
            wrong.append(f"{problem}, which is the answer of {model} to its golden inference")
            continue
        if difference := golden.difference(answer):
            wrong.append(f"{client.pod.name}: {model} version {versions[model]} answers wrongly: {difference}")
    if busy is not None and not wrong:
        raise busy
    return wrong


class Proof:
    """The pods of a release that have answered rightly (`proven`, by uid). `waiting` says why others have not yet."""

    def __init__(self, release: StackRelease, fleet: Fleet, tell: Callable[[str], None]) -> None:
        self._release = release
        self._fleet = fleet
        self._tell = tell
        self._goldens = goldens(release, release.manifest.versions)
        self.proven: set[str] = set()
        self.waiting: list[str] = []

    def look(self) -> None:
        """Check each pod that is not proven yet. Raises WrongAnswer and FleetError."""
        self.waiting = []
        pods = self._fleet.pods()
        self.proven &= {pod.uid for pod in pods}
        versions = self._release.manifest.versions
        for pod in pods:
            if pod.uid in self.proven or self._fleet.release(pod) != self._release.manifest.id:
                continue  # a pod of the Deployment's earlier release is terminating
            try:
                with PodClient(pod) as client:
                    if missing := [model for model, version in versions.items() if not client.ready(model, version)]:
                        self.waiting.append(f"{pod.name}: {', '.join(missing)} not ready")
                        continue
                    wrong = wrong_answers(client, self._goldens, versions)
            except PodProblem as problem:  # it starts or ends, or is busy, as a pod of a right release may be
                self.waiting.append(str(problem))
                continue
            if wrong:
                raise WrongAnswer("; ".join(wrong))
            self.proven.add(pod.uid)
            self._tell(f"{pod.name}: {len(self._goldens)} golden inferences, as released")
