"""Judge a release that a rolling update has brought to the pods: its golden inferences, then what its requests come to.

A rolling update has no canary: its pods have the requests as soon as their models answer, and the old pods are gone. So the
release is judged by its budgets alone, and by its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from modelctl.rollout import configs
from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.gate import Canary, Gate
from modelctl.rollout.limits import Limits, until
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import WITHOUT_TIME, PodClient, PodDown, PodHangs, PodProblem, PodRefuses
from modelctl.rollout.pods import Pods
from spec.failure import NOT_TRIED, Failure


class NotServed(Failure):
    """The pods do not serve the release, so that there is nothing to watch."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Seen:
    """The findings of a watch, a sentence each. `wrong`: why the release is no good; `open`: what few requests, or pods
    without time for their golden inferences or metrics, left open.
    """

    wrong: list[str]
    open: list[str]
    figures: list[str]


class Watch:
    """Watches the pods of a fleet for what they do with a release. `tell` gets a line per step."""

    def __init__(
        self,
        release: StackRelease,
        fleet: Fleet,
        slo_p95_ms: Mapping[str, float],
        limits: Limits,
        tell: Callable[[str], None],
    ) -> None:
        self._release = release
        self._fleet = fleet
        self._limits = limits
        self._tell = tell
        self._versions = release.manifest.versions
        self._gate = Gate(
            [Canary(model, version, None, slo_p95_ms.get(model)) for model, version in self._versions.items()],
            limits.terms,
            watched=True,
        )
        self._goldens = {
            model: golden
            for model in self._versions
            if configs.keeps_state(release.config(model)) is None and (golden := release.golden(model)) is not None
        }
        self._proven: set[str] = set()
        self._unproven: list[str] = []
        self._uncounted: list[str] = []

    def run(self) -> Seen:
        """Watch for `limits.watch` seconds, or until something is wrong. Raises NotServed, FleetError and StoreError."""
        if not self._fleet.pods():
            raise NotServed("there are no pods to watch; run this after `pulumi up`")
        pods = Pods(self._fleet, self._limits, lambda: None, self._tell)
        for _ in until(self._limits.watch, self._limits.poll, lambda: None):
            wrong = self._prove_new_pods()
            self._uncounted = []
            try:
                self._gate.look(pods.counters())
            except PodHangs as problem:  # the requests of one pod are missing, so that this look counts for nothing
                self._uncounted.append(f"{problem}, where its metrics were asked for")
            if wrong := [*wrong, *self._gate.breaches()]:
                return Seen(wrong, [], self._gate.figures())
        if not self._proven and not self._unproven:
            raise NotServed(f"no pod answered in {self._limits.watch:g} s; `kubectl get pods` says what they do")
        undecided = self._gate.undecided()
        return Seen([], [*self._unproven, *(self._uncounted if undecided else ()), *undecided], self._gate.figures())

    def _prove_new_pods(self) -> list[str]:
        """Ask each pod that has not given its golden inferences before; return what is wrong with the answers."""
        wrong: list[str] = []
        self._unproven = []
        for pod in self._fleet.pods():
            if pod.uid in self._proven:
                continue
            try:
                wrong += self._prove(pod)
            except PodDown:  # it starts, or ends
                continue
            except WITHOUT_TIME as problem:
                self._unproven.append(f"{problem}, where its golden inferences were asked for")
                continue
            self._proven.add(pod.uid)
        return wrong

    def _prove(self, pod: Pod) -> list[str]:
        """Return what is wrong with a pod's answers. Raises PodHangs and PodOverloaded when the others are right."""
        wrong = []
        busy: PodProblem | None = None
        # Two releases of the same versions may have other configs, so that what answers does not tell them apart.
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
            for model, golden in self._goldens.items():
                try:
                    answer = client.infer(model, self._versions[model], golden.request())
                except WITHOUT_TIME as problem:
                    busy = problem
                    continue
                except PodRefuses as problem:
                    wrong.append(f"{problem}, which is the answer of {model} to its golden inference")
                    continue
                if difference := golden.difference(answer):
                    wrong.append(f"{pod.name}: {model} version {self._versions[model]} answers wrongly: {difference}")
        if busy is not None and not wrong:
            raise busy
        self._tell(
            f"{pod.name}: {len(self._goldens)} golden inferences, {'as released' if not wrong else 'not as released'}"
        )
        return wrong
