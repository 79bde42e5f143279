"""Roll a release out on separate pods (`triton.rollout: blue-green`).

The stack file describes each step, and `pulumi up` applies it. The candidate's pods run next to the release's pods and get
no requests until each has answered its golden inferences. Then the gateway sends them a growing share, and finally all
requests.

Only Pulumi changes pods and shares, and the stack file is the only journal: a killed rollout resumes from it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.pulumi_program import PulumiFailed
from modelctl.release import candidate, catalog
from modelctl.release.retire import refuse_retired
from modelctl.rollout import configs, plan
from modelctl.rollout.controller import Outcome, Result, Wanted
from modelctl.rollout.copies import counts
from modelctl.rollout.copies.gate import AnswersGate, CopiedModel
from modelctl.rollout.fleet import Fleet, Pod, ServedVersion
from modelctl.rollout.gate import Canary, Gate, of_release
from modelctl.rollout.limits import Limits, until
from modelctl.rollout.phases import MOST_COMPARED_PERCENT, Breach, Unjudged
from modelctl.rollout.plan import Refused, StackRelease
from modelctl.rollout.pod_client import ForwardBroke, PodClient, PodHangs, PodProblem
from modelctl.rollout.pods import Pods
from modelctl.rollout.proof import Proof, WrongAnswer
from modelctl.store.bucket import Store
from modelctl.store.journal import Change
from spec.failure import NOT_TRIED, Failure
from spec.names import SERVED_VERSIONS
from spec.settings import Settings, load_stack_file
from spec.settings.blue_green import helm_release, other_slot

ALL = 100


class NotReturned(Failure):
    """The candidate is out of the stack file, but `pulumi up` failed. The text gives the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Platform:
    """The environment of a stack.

    `fleet` returns the pods of a Helm release. `up` applies the stack file and raises PulumiFailed. `check` raises when the
    rollout must stop. `comparers` returns the pods that compare responses to mirrored requests.
    """

    fleet: Callable[[str], Fleet]
    up: Callable[[], None]
    check: Callable[[], None]
    comparers: Callable[[], Sequence[Pod]] = tuple


class BlueGreen:
    """Roll releases out by changing a stack file. `tell` gets a line per step."""

    def __init__(
        self,
        file: Path,
        store: Store,
        platform: Platform,
        wanted: Wanted,
        limits: Limits,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._store = store
        self._platform = platform
        self._wanted = wanted
        self._limits = limits
        self._tell = tell

    def rollout(self, release_id: str) -> Result:
        """Replace the current release by this one, or resume its rollout.

        Raises Refused with all reasons, and SettingsError, before any change. Raises UnknownRelease, ManifestError,
        RetirementError, PinError, StoreError, FleetError, LockTaken and ReplayError; after the cause is fixed, the same
        command resumes. Raises NotReturned when a rejected candidate is out of the stack file but may still get requests.
        """
        settings = load_stack_file(self._file)
        release, tried = settings.models.release, settings.models.candidate
        if release is None:
            raise Refused(["the stack has no release yet: `modelctl pin` its first one, then `pulumi up`"])
        if tried is None and release.id == release_id:
            self._platform.up()  # finishes a rollout that was killed at its end
            return Result(Outcome.NOTHING_TO_DO, release_id)
        if tried is not None and tried.release.id != release_id:
            raise Refused(
                [
                    f"release {tried.release.id} is a candidate with {tried.percent} % of the requests: finish it with "
                    f"`modelctl rollout {tried.release.id}`, or undo it with `modelctl rollout --back`"
                ]
            )
        new = self._release(release_id)
        if self._wanted.replay is not None:
            self._wanted.replay.refuse_unknown(new.manifest)
        if tried is None:
            self._begin(settings, new)
        else:
            self._tell(f"going on with the rollout of {release_id}, which was left at {tried.percent} %")
        return self._go_on(new, self._release(release.id))

    def back(self) -> Result:
        """Send all requests to the release again and delete the candidate.

        Raises the same errors as `rollout`, and Refused when the stack file has no candidate. Then `pulumi up` still applies
        the stack file.
        """
        settings = load_stack_file(self._file)
        release, tried = settings.models.release, settings.models.candidate
        if release is None or tried is None:
            if release is not None:
                self._platform.up()  # finishes a rollback that was killed in its `pulumi up`
            previous = release.previous if release is not None else None
            way = f"`modelctl rollout {previous}` rolls the release before out" if previous else "there is none before it"
            raise Refused([f"no release is being rolled out, so there is nothing to undo; {way}"])
        return self._undo(self._changes(self._release(release.id), self._release(tried.release.id)), "asked for (--back)")

    def _release(self, release_id: str) -> StackRelease:
        return StackRelease(catalog.finished(self._store, release_id, self._wanted.signers), self._wanted.stack, self._store)

    def _changes(self, old: StackRelease, new: StackRelease) -> tuple[Change, ...]:
        """Return the new and changed models; all others are identical on both Deployments."""
        before = old.manifest.versions
        return tuple(
            Change(model=model, old=before.get(model), new=version)
            for model, version in new.manifest.versions.items()
            if before.get(model) != version or plan.difference(model, old, new) is not None
        )

    def _begin(self, settings: Settings, new: StackRelease) -> None:
        assert settings.models.release is not None
        refuse_retired(new.manifest, self._store)
        changes = self._changes(self._release(settings.models.release.id), new)
        stateful = [change.model for change in changes if configs.keeps_state(new.config(change.model))]
        reasons = [why for change in changes if change.model not in stateful for why in plan.unproven(change.model, new)]
        if self._wanted.canary or self._wanted.mirror:
            judged = [change.model for change in changes if change.old is not None]
            reasons += plan.without_slo(judged, self._wanted.slo_p95_ms, self._wanted.stack)
        stable = self._platform.fleet(helm_release(settings.models.slot))
        reasons += _told_but_missing(changes, new, stable.served())
        if reasons:
            raise Refused(reasons)
        pods = None
        if settings.autoscaling is not None:
            there = len(stable.pods())
            pods = max(1, min(there, settings.autoscaling.max_replicas))
        candidate.add(self._file, new.manifest, pods)
        self._tell(f"{self._file}: release {new.manifest.id} is a candidate")

    def _go_on(self, new: StackRelease, old: StackRelease) -> Result:
        changes = self._changes(old, new)
        try:
            settings = load_stack_file(self._file)
            trial = _Trial(self._platform, self._limits, self._wanted, settings, changes, old, new, self._tell)
            self._platform.up()
            trial.prove_all()
            if settings.models.candidate is None or not settings.models.candidate.percent:
                self._try_apart(trial)
            for percent in self._steps():
                self._give(trial, percent)
        except ForwardBroke:  # which says nothing about the candidate
            raise
        except (PodProblem, WrongAnswer, Breach, Unjudged, PulumiFailed) as failure:
            return self._undo(changes, str(failure), without_traffic=isinstance(failure, Unjudged))
        candidate.promote(self._file, new.manifest, settings.models.slot)
        self._tell(f"{self._file}: {new.manifest.id} is the release, and {old.manifest.id} the one before")
        self._platform.up()
        return Result(Outcome.DONE, new.manifest.id, changes)

    def _steps(self) -> list[int]:
        """Return the shares to go through, starting with the candidate's current share, which is judged again."""
        tried = load_stack_file(self._file).models.candidate
        now = tried.percent if tried is not None else 0
        return sorted({percent for percent in (now, *self._wanted.canary, ALL) if percent and percent >= now})

    def _try_apart(self, trial: _Trial) -> None:
        """Compare the candidate with the release before clients get its responses. Raises PodProblem and the errors of
        `_give`."""
        trial.replay()
        percent = self._wanted.mirror
        if percent:
            gate = trial.gate(compared=True)
            trial.count(gate)
            tolerances = trial.tolerances()
            candidate.mirror(self._file, percent, tolerances)
            self._tell(f"{self._file}: the candidate gets copies of {percent} % of the requests")
            self._platform.up()
            trial.judge(gate, f"by copies of {percent} %", trial.answers(tolerances))

    def _give(self, trial: _Trial, percent: int) -> None:
        """Give the candidate this share and judge it. Raises Breach, Unjudged, WrongAnswer and PulumiFailed."""
        gate = trial.gate(compared=percent <= MOST_COMPARED_PERCENT, watched=percent == ALL)
        trial.count(gate)
        candidate.give(self._file, percent)
        self._tell(f"{self._file}: the candidate gets {percent} % of the requests")
        self._platform.up()
        if percent == ALL:
            trial.watch(gate)
        else:
            trial.judge(gate, f"at {percent} %")

    def _undo(self, changes: tuple[Change, ...], reason: str, *, without_traffic: bool = False) -> Result:
        release = load_stack_file(self._file).models.release
        assert release is not None
        candidate.remove(self._file)
        self._tell(f"{self._file}: the candidate is taken out: {reason}")
        try:
            self._platform.up()
        except PulumiFailed as failure:
            raise NotReturned(
                f"{failure}; the candidate, which is taken out of {self._file} because {reason}, may still have requests: "
                f"run `pulumi up --stack {self._wanted.stack}`"
            ) from None
        outcome = Outcome.NO_TRAFFIC if without_traffic else Outcome.UNDONE
        return Result(outcome, release.id, changes, reason)


def _told_but_missing(changes: tuple[Change, ...], new: StackRelease, told: Mapping[str, ServedVersion]) -> Iterator[str]:
    """Yield the reasons why clients that follow the served versions would lose requests.

    Only an in-place rollout changes the served versions.
    """
    for change in changes:
        entry = told.get(change.model)
        if entry is None:
            continue
        there = {change.new, *new.manifest.others.get(change.model, [])}
        missing = sorted({version for version in (entry.stable, entry.canary) if version is not None} - there)
        if missing:
            removal = f'kubectl patch configmap {SERVED_VERSIONS} --type merge -p \'{{"data": {{"{change.model}": null}}}}\''
            yield (
                f"{change.model}: {SERVED_VERSIONS} tells clients to ask for version {missing[0]}, which pods of release "
                f"{new.manifest.id} do not have; take the entry out, and they name no version: `{removal}` in the namespace "
                "of Triton"
            )


class _Trial:
    """A candidate on its own pods, next to the release's pods."""

    def __init__(
        self,
        platform: Platform,
        limits: Limits,
        wanted: Wanted,
        settings: Settings,
        changes: tuple[Change, ...],
        old: StackRelease,
        new: StackRelease,
        tell: Callable[[str], None],
    ) -> None:
        self._check = platform.check
        self._comparers = platform.comparers
        self._settings = settings
        self._limits = limits
        self._wanted = wanted
        self._changes = changes
        self._old = old
        self._new = new
        self._tell = tell
        slot = settings.models.slot
        stable, tried = (platform.fleet(helm_release(one)) for one in (slot, other_slot(slot)))
        self._fleets = (stable, tried)
        self._fewest = settings.each_fleet[-1].stack.fewest_pods
        self._stable = Pods(stable, limits, platform.check, tell)
        self._tried = Pods(tried, limits, platform.check, tell)
        self._proof = Proof(new, tried, tell)

    def prove_all(self) -> None:
        """Wait until all required pods have answered their golden inferences. Raises PodProblem and WrongAnswer."""
        for _ in until(self._limits.restart, self._limits.poll, self._check):
            self._proof.look()
            if len(self._proof.proven) >= self._fewest and not self._proof.waiting:
                return
        raise PodProblem(
            f"{len(self._proof.proven)} of {self._fewest} pods of the candidate have answered after "
            f"{self._limits.restart:g} s{''.join(f'; {why}' for why in self._proof.waiting)}"
        )

    def count(self, gate: Gate) -> None:
        """Pass the counters of all pods to the gate. The release's pods are counted under separate names."""
        try:
            old = {uid: of_release(self._old.manifest.id, found) for uid, found in self._stable.counters().items()}
            gate.look({**old, **self._tried.counters()})
        except PodHangs:  # as busy pods do; the next look includes the missed counts
            return

    def replay(self) -> None:
        """Send the replay file's requests, if there is one, to both releases and compare. Raises the errors of
        Replay.compare."""
        if self._wanted.replay is None:
            return
        old_name = f"release {self._old.manifest.id}"
        for change in self._changes:
            tolerance = self._new.tolerance(change.model)
            self._wanted.replay.compare(change, tolerance, self._fleets, old_name, self._check, self._tell)

    def gate(self, *, compared: bool, watched: bool = False) -> Gate:
        """Return the gate that judges the candidate at one share.

        `compared`: also compare its latency with the release, which gets at least as many requests. `watched`: the candidate
        gets all requests, so compare it with the earlier results of the release.
        """
        return Gate([*self._canaries(compared, whole=watched)], self._limits.terms, watched=watched)

    def tolerances(self) -> dict[str, float]:
        """Return the models whose responses to mirrored requests are compared, with their numeric tolerances.

        Empty when the stack has no comparer. Decoupled models and models with sequences are left out.
        """
        if self._settings.triton.comparer_image is None:
            return {}
        found = {}
        for change in self._changes:
            if change.old is None or self._settings.models.is_decoupled(change.model):
                continue
            if any(configs.keeps_state(release.config(change.model)) for release in (self._old, self._new)):
                continue
            found[change.model] = self._new.tolerance(change.model)
        return found

    def answers(self, tolerances: Mapping[str, float]) -> AnswersGate | None:
        """Return the gate that judges by the responses to mirrored requests; None without models."""
        if not tolerances:
            return None
        models = [CopiedModel(one.model, one.new, self._old.manifest.id) for one in self._changes if one.model in tolerances]
        return AnswersGate(models, self._wanted.may_differ, self._limits.terms.requests)

    def judge(self, gate: Gate, by: str, answers: AnswersGate | None = None) -> None:
        """Wait until the candidate may get more requests. Raises Breach, Unjudged and WrongAnswer.

        `by` names the requests in the message.
        """
        judges: list[Gate | AnswersGate] = [gate] if answers is None else [gate, answers]
        open_: list[str] = []
        began = time.monotonic()
        for _ in until(self._limits.canary, self._limits.poll, self._check):
            if answers is not None:
                self._look_at_copies(answers)
            self._look(gate)
            open_ = [sentence for judge in judges for sentence in judge.undecided()]
            if time.monotonic() - began >= self._limits.terms.seconds and not open_:
                self._require_pods()
                for judge in judges:
                    for line in judge.figures():
                        self._tell(line)
                return
        raise Unjudged(f"not enough requests to judge by in {self._limits.canary:g} s {by}: {'; '.join(open_)}")

    def watch(self, gate: Gate) -> None:
        """Judge the candidate by all requests for a limited time. Raises Breach and WrongAnswer."""
        for _ in until(self._limits.watch, self._limits.poll, self._check):
            self._look(gate)
        self._require_pods()

    def _require_pods(self) -> None:
        """Raise Breach unless enough proven pods respond now. A dead pod counts no requests, so no gate detects it."""
        answering = 0
        broke: ForwardBroke | None = None
        for _ in until(self._limits.load, self._limits.poll, self._check):
            try:
                answering, broke = len(self._tried.counters().keys() & self._proof.proven), None
                break
            except ForwardBroke as lost:
                broke = lost
            except PodHangs:  # as busy pods do
                broke = None
        if broke is not None:
            raise broke
        if answering < self._fewest:
            raise Breach(f"{answering} of {self._fewest} pods of the candidate answer")

    def _look(self, gate: Gate) -> None:
        self._proof.look()  # checks pods that an autoscaler added or that replaced another pod
        self.count(gate)
        if found := gate.breaches():
            raise Breach("; ".join(found))

    def _look_at_copies(self, answers: AnswersGate) -> None:
        found = {}
        for pod in self._comparers():
            with contextlib.suppress(PodProblem), PodClient(pod) as client:  # a starting pod is read next time
                found[pod.uid] = client.measured(counts.parse)
        answers.look(found)
        if breaches := answers.breaches():
            raise Breach("; ".join(breaches))

    def _canaries(self, compared: bool, *, whole: bool) -> list[Canary]:
        """Return the models to judge.

        Without all requests, models with sequences are left out, because only the release serves them.
        """
        return [
            Canary(
                change.model,
                change.new,
                change.old,
                self._wanted.slo_p95_ms.get(change.model),
                compared and not self._new.config(change.model).response_cache.enable,
                self._old.manifest.id,
            )
            for change in self._changes
            if change.old is not None and (whole or not self._settings.models.keeps_sequences(change.model))
        ]
