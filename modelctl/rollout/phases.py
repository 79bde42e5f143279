"""The work of each phase of a rollout. Each may run twice: a killed phase runs again from its beginning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from modelctl.rollout import configs
from modelctl.rollout.fleet import Fleet, FleetAbsent, ServedVersion
from modelctl.rollout.gate import Canary, Gate
from modelctl.rollout.limits import Limits, until
from modelctl.rollout.metrics import VersionOf
from modelctl.rollout.plan import StackRelease
from modelctl.rollout.pod_client import PodHangs
from modelctl.rollout.pods import Pods, Target
from modelctl.rollout.replay import Replay
from modelctl.store.followed import digest
from modelctl.store.journal import Change, Phase, Rollout
from modelctl.store.live import LiveRepository, WrongContent

MOST_COMPARED_PERCENT = 50
"""Up to this percentage, versions are compared. With more requests, a right one may take longer, because its batches are
larger."""


class Breach(Exception):
    """A new version is worse than allowed; the text says how."""


class Unjudged(Exception):
    """A canary got too few requests to be judged; the text names the open questions."""


@dataclass(frozen=True)
class Site:
    """The environment of a rollout.

    `canary`: percentages below 100, ascending. `check` raises when the rollout must stop. `replay`: requests that are sent
    to both versions before clients are told of the new one.
    """

    live: LiveRepository
    fleet: Fleet
    limits: Limits
    canary: tuple[int, ...]
    slo_p95_ms: Mapping[str, float]
    tell: Callable[[str], None]
    check: Callable[[], None]
    replay: Replay | None = None


class Phases:
    """The work of one rollout from release `old` (None: live/ is empty) to `new`.

    Raises PodProblem, WrongContent, Breach and Unjudged when the new versions are bad or cannot be judged. Raises
    StillAsked, FleetError, StoreError and ReplayError when the rollout can resume later.
    """

    def __init__(self, site: Site, rollout: Rollout, old: StackRelease | None, new: StackRelease) -> None:
        self._site = site
        self._rollout = rollout
        self._old = old
        self._new = new
        self._pods = Pods(site.fleet, site.limits, site.check, site.tell)

    def do(self) -> Rollout | None:
        """Run the current phase. Return the rollout with its next phase, or None after the last."""
        work = {
            Phase.SEED: self._seed,
            Phase.COPY: self._copy,
            Phase.LOAD: self._load,
            Phase.CANARY: self._canary,
            Phase.FLIP: self._flip,
            Phase.WATCH: self._watch,
            Phase.DRAIN: self._drain,
            Phase.SETTLE: self._settle,
            Phase.CLEAN: self._clean,
            Phase.UNDO_SERVE: self._undo_serve,
            Phase.UNDO_DRAIN: self._undo_drain,
            Phase.UNDO_PODS: self._undo_pods,
            Phase.UNDO_CLEAN: self._undo_clean,
        }
        return work[self._rollout.phase]()

    def _seed(self) -> None:
        for change in self._rollout.changes:
            self._copy_model(change.model)
            self._write_config(change.model, self._new, [change.new])
        self._serve_release(self._new)

    def _copy(self) -> Rollout:
        for change in self._rollout.changes:
            self._copy_model(change.model)
        # Write the configs last: a config that names a version without files keeps a pod from starting.
        for change in self._rollout.changes:
            self._write_config(change.model, self._new, _both(change))
        return self._rollout.at(Phase.LOAD)

    def _load(self) -> Rollout:
        self._pods.until_fetched_everywhere(self._loaded(), self._rollout.started)
        self._pods.load_everywhere(self._loaded(), again=True)
        if self._site.replay is not None:
            for change in self._rollout.changes:
                self._site.replay.compare(
                    change,
                    self._new.tolerance(change.model),
                    (self._site.fleet, self._site.fleet),
                    f"version {change.old}",
                    self._site.check,
                    self._site.tell,
                )
        return self._next_share()

    def _canary(self) -> Rollout:
        # A pod that started meanwhile has read live/ and has both versions; a pod that is not ready gets no requests.
        self._pods.load_everywhere(self._loaded(), again=False)
        percent = self._rollout.percent
        gate = Gate(self._canaries(), self._site.limits.terms)
        gate.look(self._pods.counters())
        self._site.fleet.serve(
            {c.model: ServedVersion(stable=c.old, canary=c.new, percent=percent) for c in self._rollout.changes if c.old}
        )
        if self._olds():
            self._site.tell(f"clients are told: {percent} % to {_news(self._rollout.changes)}")
        self._judge(gate)
        return self._next_share()

    def _flip(self) -> Rollout:
        self._pods.load_everywhere(self._loaded(), again=False)
        self._serve_release(self._new)
        # A rollback is not watched, because there is no better release to return to.
        following = Phase.DRAIN if self._rollout.back else Phase.WATCH
        return self._rollout.model_copy(update={"phase": following, "percent": 100})

    def _watch(self) -> Rollout:
        limits = self._site.limits
        gate = Gate(self._canaries(), limits.terms, watched=True)
        for _ in until(limits.watch, limits.poll, self._site.check):
            self._look(gate)
        return self._rollout.at(Phase.DRAIN)

    def _drain(self) -> Rollout:
        self._pods.wait_until_unasked(self._olds())
        return self._rollout.at(Phase.SETTLE)

    def _settle(self) -> Rollout:
        for change in self._rollout.changes:
            self._write_config(change.model, self._new, [change.new])
        self._pods.settle_everywhere([_target(c.model, self._new, [c.new]) for c in self._rollout.changes])
        return self._rollout.at(Phase.CLEAN)

    def _clean(self) -> None:
        for model, version in self._olds():
            self._site.live.delete_version(model, version)
            self._site.tell(f"deleted {model} version {version} from live/")

    def _undo_serve(self) -> Rollout:
        self._serve_release(self._before())
        return self._rollout.at(Phase.UNDO_DRAIN)

    def _undo_drain(self) -> Rollout:
        if self._rollout.percent:
            self._pods.wait_until_unasked([(change.model, change.new) for change in self._rollout.changes])
        return self._rollout.at(Phase.UNDO_PODS)

    def _undo_pods(self) -> Rollout:
        targets = []
        for change in self._rollout.changes:
            if change.old is None:
                self._site.live.delete_model(change.model)
                targets.append(Target(change.model, (), "", ""))
            else:
                self._write_config(change.model, self._before(), [change.old])
                targets.append(_target(change.model, self._before(), [change.old]))
        self._pods.settle_everywhere(targets)
        return self._rollout.at(Phase.UNDO_CLEAN)

    def _undo_clean(self) -> None:
        for change in self._rollout.changes:
            self._site.live.delete_version(change.model, change.new)
            self._site.tell(f"deleted {change.model} version {change.new} from live/")

    def _next_share(self) -> Rollout:
        for percent in self._site.canary:
            if percent > self._rollout.percent:
                return self._rollout.model_copy(update={"phase": Phase.CANARY, "percent": percent})
        return self._rollout.at(Phase.FLIP)

    def _canaries(self) -> list[Canary]:
        return [
            Canary(
                change.model, change.new, change.old, self._site.slo_p95_ms.get(change.model), self._comparable(change.model)
            )
            for change in self._rollout.changes
            if change.old is not None
        ]

    def _comparable(self, model: str) -> bool:
        """Return whether both versions of a model, if alike, take the same time for a request."""
        # A new version's response cache is empty, and an answer from the cache takes no time in the model.
        return self._rollout.percent <= MOST_COMPARED_PERCENT and not self._new.config(model).response_cache.enable

    def _judge(self, gate: Gate) -> None:
        """Wait until the canaries may get more requests. Raises Breach and Unjudged."""
        limits = self._site.limits
        began = time.monotonic()
        for _ in until(limits.canary, limits.poll, self._site.check):
            self._look(gate)
            if time.monotonic() - began >= limits.terms.seconds and not gate.undecided():
                for line in gate.figures():
                    self._site.tell(line)
                return
        open_ = "; ".join(gate.undecided())
        raise Unjudged(f"not enough requests to judge by in {limits.canary:g} s at {self._rollout.percent} %: {open_}")

    def _look(self, gate: Gate) -> None:
        try:
            gate.look(self._pods.counters())
        except PodHangs:  # as busy pods do; the next look includes the missed counts
            return
        if found := gate.breaches():
            raise Breach("; ".join(found))

    def _serve_release(self, release: StackRelease) -> None:
        """Publish one version of each model in the release. Remove the entries of models that only the other release has."""
        both = {change.model: None for change in self._rollout.changes}
        stable = {model: ServedVersion(stable=version) for model, version in release.manifest.versions.items()}
        try:
            self._site.fleet.serve({**both, **stable})
        except FleetAbsent as absent:
            if self._rollout.phase is not Phase.SEED:
                raise
            self._site.tell(f"{absent}; clients are told when this command is run again")
            return
        changed = {c.model: stable[c.model].stable for c in self._rollout.changes if c.model in stable}
        self._site.tell("clients are told: " + ", ".join(f"{model} version {v}" for model, v in changed.items()))

    def _copy_model(self, model: str) -> None:
        files = {**self._new.shared_files(model), **self._new.version_files(model)}
        wrong = []
        for key, entry in files.items():
            self._site.check()
            try:
                self._site.live.copy(self._new.manifest.id, key, entry)
            except WrongContent as difference:
                wrong.append(str(difference))
            else:
                self._site.tell(f"copied {key}")
        if wrong:
            raise WrongContent("; ".join(wrong))

    def _write_config(self, model: str, release: StackRelease, versions: Iterable[int]) -> None:
        self._site.live.write_config(model, _text(model, release, versions))

    def _loaded(self) -> list[Target]:
        """Return both versions of each changed model; the golden inference proves the new one."""
        return [_target(change.model, self._new, _both(change), proven=change.new) for change in self._rollout.changes]

    def _olds(self) -> list[VersionOf]:
        return [(change.model, change.old) for change in self._rollout.changes if change.old is not None]

    def _before(self) -> StackRelease:
        if self._old is None:
            raise AssertionError("the first release of live/ is not undone")
        return self._old


def _both(change: Change) -> list[int]:
    return sorted({change.new} | ({change.old} if change.old is not None else set()))


def _text(model: str, release: StackRelease, versions: Iterable[int]) -> str:
    return configs.to_text(configs.serving(release.config(model), list(versions)))


def _target(model: str, release: StackRelease, versions: list[int], *, proven: int | None = None) -> Target:
    config = configs.to_json(configs.serving(release.config(model), versions))
    golden = release.golden(model) if proven is not None else None
    return Target(model, tuple(versions), config, digest(_text(model, release, versions)), proven, golden)


def _news(changes: Iterable[Change]) -> str:
    return ", ".join(f"{change.model} version {change.new}" for change in changes if change.old is not None)
