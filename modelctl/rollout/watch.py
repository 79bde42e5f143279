"""Judge a release after a rolling update: first its golden inferences, then the results of its requests.

A rolling update has no canary: its pods get requests as soon as their models are ready, and the old pods are gone. So the
release is judged only by its budgets and its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.gate import Canary, Gate
from modelctl.rollout.limits import Limits, until
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import WITHOUT_TIME, PodClient, PodDown, PodHangs
from modelctl.rollout.pods import Pods
from modelctl.rollout.proof import goldens, wrong_answers
from spec.failure import NOT_TRIED, Failure


class NotServed(Failure):
    """The pods do not serve the release, so there is nothing to watch."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Seen:
    """The findings of a watch, a sentence each.

    `wrong`: why the release is bad. `open`: questions left open by too few requests, by pods without time for golden
    inferences or metrics, and by fleets without pods.
    """

    wrong: list[str]
    open: list[str]
    figures: list[str]


@dataclass(frozen=True)
class Watched:
    """A fleet with the versions that it serves by model. `asked`: the models for which it gets requests.

    `name` distinguishes it from the stack's other fleets; None if it is the only one.
    """

    fleet: Fleet
    versions: Mapping[str, int]
    asked: Sequence[str]
    name: str | None = None

    def told(self, sentences: Sequence[str]) -> list[str]:
        """Return sentences about the whole fleet, prefixed with its name."""
        return [sentence if self.name is None else f"fleet {self.name}: {sentence}" for sentence in sentences]


def watch(
    release: StackRelease,
    fleets: Sequence[Watched],
    slo_p95_ms: Mapping[str, float],
    limits: Limits,
    tell: Callable[[str], None],
) -> Seen:
    """Watch all fleets of a stack for `limits.watch` seconds, or until an error is found. `tell` gets a line per step.

    A fleet without pods is reported as open, because autoscaling may remove the pods of an idle fleet. Raises NotServed if
    no fleet has pods, FleetError and StoreError.
    """
    watches = [Watch(release, one, slo_p95_ms, limits, tell) for one in fleets]
    if not any(one.began_with_pods for one in watches):
        raise NotServed("there are no pods to watch; run this after `pulumi up`")
    for _ in until(limits.watch, limits.poll, lambda: None):
        if wrong := [sentence for one in watches for sentence in one.look()]:
            return Seen(wrong, [], [line for one in watches for line in one.figures()])
    open_ = [sentence for one in watches for sentence in one.end()]
    return Seen([], open_, [line for one in watches for line in one.figures()])


class Watch:
    """Watches how the pods of a fleet serve a release."""

    def __init__(
        self,
        release: StackRelease,
        watched: Watched,
        slo_p95_ms: Mapping[str, float],
        limits: Limits,
        tell: Callable[[str], None],
    ) -> None:
        """Prepare the gate and the golden inferences. Raises FleetError and StoreError."""
        self._release = release
        self._watched = watched
        self._fleet = watched.fleet
        self._limits = limits
        self._tell = tell
        self._versions = watched.versions
        self._gate = Gate(
            [Canary(model, self._versions[model], None, slo_p95_ms.get(model)) for model in watched.asked],
            limits.terms,
            watched=True,
        )
        self._goldens = goldens(release, self._versions)
        self._proven: set[str] = set()
        self._unproven: list[str] = []
        self._uncounted: list[str] = []
        self.began_with_pods = bool(self._fleet.pods())
        self._pods = Pods(self._fleet, limits, lambda: None, tell)

    def look(self) -> list[str]:
        """Check new pods and count requests; return the errors found.

        Raises NotServed, FleetError and StoreError.
        """
        wrong = self._prove_new_pods()
        self._uncounted = []
        try:
            self._gate.look(self._pods.counters())
        except PodHangs as problem:  # the counts of one pod are missing, so this look does not count
            self._uncounted.append(f"{problem}, where its metrics were asked for")
        return [*wrong, *self._watched.told(self._gate.breaches())]

    def end(self) -> list[str]:
        """Return the questions left open by too few requests or by pods without time.

        Raises NotServed if pods existed at the start but never answered. Pods that were added later may still be starting.
        """
        if not self._proven and not self._unproven:
            if not self.began_with_pods:
                return self._watched.told(["there were no pods to watch"])
            raise NotServed(f"no pod{self._of()} answered in {self._limits.watch:g} s; `kubectl get pods` says what they do")
        undecided = self._gate.undecided()
        return [*self._unproven, *(self._uncounted if undecided else ()), *self._watched.told(undecided)]

    def figures(self) -> list[str]:
        """Return the figures of each model, a line each."""
        return self._watched.told(self._gate.figures())

    def _of(self) -> str:
        return "" if self._watched.name is None else f" of fleet {self._watched.name}"

    def _prove_new_pods(self) -> list[str]:
        """Send the golden inferences to each pod that has not passed them yet. Return the errors in the answers."""
        wrong: list[str] = []
        self._unproven = []
        for pod in self._fleet.pods():
            if pod.uid in self._proven:
                continue
            try:
                wrong += self._prove(pod)
            except PodDown:  # it starts or ends
                continue
            except WITHOUT_TIME as problem:
                self._unproven.append(f"{problem}, where its golden inferences were asked for")
                continue
            self._proven.add(pod.uid)
        return wrong

    def _prove(self, pod: Pod) -> list[str]:
        """Return the errors in a pod's answers. Raises PodHangs and PodOverloaded when the other answers are right."""
        # Two releases with the same versions may have different configs, so a right answer does not identify the release.
        served, watched = self._fleet.release(pod), self._release.manifest.id
        if served not in {None, watched}:
            raise NotServed(f"{pod.name} serves release {served}, not {watched}; run `pulumi up` first")
        with PodClient(pod) as client:
            missing = [f"{m} version {v}" for m, v in self._versions.items() if not client.ready(m, v)]
            if missing:
                raise NotServed(
                    f"{pod.name} does not serve {', '.join(missing)} of release {watched}; run this after "
                    "`pulumi up`, when all pods are ready"
                )
            wrong = wrong_answers(client, self._goldens, self._versions)
        self._tell(
            f"{pod.name}: {len(self._goldens)} golden inferences, {'as released' if not wrong else 'not as released'}"
        )
        return wrong
