"""Run a rollout from its beginning, or from the phase that the journal records.

SEED -> done
COPY -> LOAD -> CANARY -> FLIP -> WATCH -> DRAIN -> SETTLE -> CLEAN -> done
COPY … WATCH, when they fail, and COPY … DRAIN by --back -> UNDO_SERVE -> UNDO_DRAIN -> UNDO_PODS -> UNDO_CLEAN -> undone
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from modelctl.release import catalog
from modelctl.release.retire import refuse_retired
from modelctl.rollout import plan
from modelctl.rollout.fleet import Fleet, FleetAbsent, ServedVersion
from modelctl.rollout.lease import Lease
from modelctl.rollout.limits import Limits
from modelctl.rollout.phases import Breach, Phases, Site, Unjudged
from modelctl.rollout.plan import Refused, StackRelease
from modelctl.rollout.pod_client import ForwardBroke, PodProblem
from modelctl.rollout.replay import Replay
from modelctl.store.bucket import Store
from modelctl.store.journal import Change, Journal, Phase, Rollout
from modelctl.store.live import LiveRepository, WrongContent

_UNDONE_BY_ITSELF = frozenset({Phase.COPY, Phase.LOAD, Phase.CANARY, Phase.FLIP, Phase.WATCH})


class Outcome(StrEnum):
    """The result of a rollout. With UNDONE and NO_TRAFFIC the earlier versions serve, as they did all the time."""

    DONE = "done"
    SEEDED = "seeded"
    NOTHING_TO_DO = "nothing to do"
    UNDONE = "undone"
    NO_TRAFFIC = "no traffic to judge"


@dataclass(frozen=True)
class Result:
    """`release` is the release that live/ serves now. `reason` is why a rollout was rolled back."""

    outcome: Outcome
    release: str
    changes: tuple[Change, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Wanted:
    """The stack of a rollout, and how the rollout is judged.

    `canary`: percentages below 100, ascending; each is judged before the next. `slo_p95_ms`: the SLO of each model that has
    one. `replay`: requests that are sent to the old and the new version before the first step. `on_fleets`: the models of
    the stack's fleets, if it has several. `mirror`: the percentage of requests that is mirrored to the separate pods of a
    release before the first step; 0 for none. `may_differ`: the share of responses to mirrored requests that may differ from
    the serving release. `signers`: one of these must have signed the release.
    """

    stack: str
    canary: tuple[int, ...] = ()
    slo_p95_ms: Mapping[str, float] = field(default_factory=dict)
    replay: Replay | None = None
    on_fleets: frozenset[str] | None = None
    mirror: int = 0
    may_differ: float = 0.0
    signers: tuple[str, ...] = ()


class Controller:
    """Roll releases out while holding the lock. `tell` gets a line per step."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        wanted: Wanted,
        *,
        limits: Limits | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._live = LiveRepository(store)
        self._fleet = fleet
        self._wanted = wanted
        self._limits = limits or Limits()
        self._tell = tell

    def rollout(self, release_id: str, lease: Lease) -> Result:
        """Bring live/ and all pods to this release, or resume its rollout.

        Raises Refused with all reasons before any change. Raises UnknownRelease, ManifestError and RetirementError for a
        release that cannot be used, and ReplayError for requests that cannot be replayed. Raises StoreError, FleetError,
        LockTaken, StillAsked and PodProblem when the same command can resume later.
        """
        self._check_stack(lease.journal)
        unfinished = lease.journal.rollout
        if unfinished is not None and (unfinished.release != release_id or unfinished.back):
            raise Refused([_unfinished(unfinished)])
        if unfinished is not None:
            self._check_canary(unfinished.changes)
            self._check_replay(self._release(release_id))
            self._tell(f"going on with the rollout of {release_id}, which was left at: {_place(unfinished)}")
        else:
            if lease.journal.serving == release_id:
                return self._nothing_to_do(release_id)
            self._begin(release_id, lease, back=False)
        return self._go_on(lease)

    def back(self, lease: Lease) -> Result:
        """Roll back an unfinished rollout, or return to the release before the last finished one. Raises the errors of
        `rollout`."""
        self._check_stack(lease.journal)
        unfinished = lease.journal.rollout
        if unfinished is not None and not unfinished.back and not unfinished.phase.undoing:
            if unfinished.phase is Phase.SEED:
                raise Refused([f"live/ is being filled for the first time: finish release {unfinished.release} first"])
            if unfinished.phase not in {Phase.SETTLE, Phase.CLEAN}:
                self._undo(lease, "asked for (--back)")
                return self._go_on(lease)
            # Some pods may have unloaded the old version already: finish the new release, then roll back from it as from any
            # other.
            self._go_on(lease)
        if lease.journal.rollout is None:
            if lease.journal.previous is None:
                raise Refused(["there is no release to go back to: this one was the first in live/"])
            self._begin(lease.journal.previous, lease, back=True)
        return self._go_on(lease)

    def _check_stack(self, journal: Journal) -> None:
        if journal.stack not in {None, self._wanted.stack}:
            raise Refused([f"live/ in {self._store.place} is that of the stack {journal.stack}, not {self._wanted.stack}"])

    def _begin(self, release_id: str, lease: Lease, *, back: bool) -> None:
        new = self._release(release_id)
        refuse_retired(new.manifest, self._store)
        serving = lease.journal.serving
        if serving is None:
            changes = tuple(Change(model=model, old=None, new=version) for model, version in new.manifest.versions.items())
        else:
            changes = plan.changes(self._release(serving), new, needs_golden=not back)
            self._check_canary(changes)
        self._check_fleets(new, changes if serving is not None else ())
        self._check_replay(new)
        self._check_live(serving is None, changes)
        begun = Rollout(
            release=release_id,
            phase=Phase.SEED if serving is None else Phase.COPY,
            changes=changes,
            started=datetime.now(UTC).replace(microsecond=0),
            back=back,
        )
        lease.record(lambda journal: journal.having(stack=self._wanted.stack, rollout=begun))
        self._tell(f"{begun.phase}: {', '.join(map(_sentence, changes))}")

    def _check_live(self, is_first: bool, changes: tuple[Change, ...]) -> None:
        """Raise Refused for foreign content in live/ that this rollout would overwrite, or delete on a rollback."""
        found = self._live.models()
        strange = (
            list(found) if is_first else [change.model for change in changes if change.old is None and change.model in found]
        )
        strange += [f"{c.model}/{c.new}" for c in changes if c.old is not None and c.new in found.get(c.model, set())]
        if strange:
            raise Refused([f"live/ holds {', '.join(sorted(strange))}, which no rollout put there: delete that first"])

    def _check_canary(self, changes: tuple[Change, ...]) -> None:
        if not self._wanted.canary:
            return
        judged = [change.model for change in changes if change.old is not None]
        if reasons := plan.without_slo(judged, self._wanted.slo_p95_ms, self._wanted.stack):
            raise Refused(reasons)

    def _check_fleets(self, new: StackRelease, changes: tuple[Change, ...]) -> None:
        """Raise Refused for models that the fleets' pods would not load when they start.

        A pod's command line lists its models.
        """
        if self._wanted.on_fleets is None:
            return
        nowhere = sorted(new.manifest.models.keys() - self._wanted.on_fleets)
        reasons = [f"{model}: no fleet of {self._wanted.stack} serves it; add it to the models of one" for model in nowhere]
        reasons += [
            f"{change.model}: is new, and the pods of a fleet load the models that they were started with: deploy it with "
            "triton.rollout: rolling"
            for change in changes
            if change.old is None and change.model not in nowhere
        ]
        if reasons:
            raise Refused(reasons)

    def _check_replay(self, new: StackRelease) -> None:
        if self._wanted.replay is not None:
            self._wanted.replay.refuse_unknown(new.manifest)

    def _go_on(self, lease: Lease) -> Result:
        """Run the phase that the journal names, record the next one, and repeat until the end."""
        while (rollout := lease.journal.rollout) is not None:
            try:
                following = self._phases(rollout, lease).do()
            except ForwardBroke:  # which says nothing about the new versions
                raise
            except (PodProblem, WrongContent, Breach, Unjudged) as failure:
                if rollout.phase not in _UNDONE_BY_ITSELF:
                    raise
                self._undo(lease, str(failure), without_traffic=isinstance(failure, Unjudged))
                continue
            if following is None:
                return self._end(rollout, lease)
            lease.record(lambda journal, next_=following: journal.having(rollout=next_))  # type: ignore[misc]
            self._tell(str(following.phase))
        raise AssertionError("nothing to go on with")

    def _undo(self, lease: Lease, reason: str, *, without_traffic: bool = False) -> None:
        update = {"phase": Phase.UNDO_SERVE, "reason": reason, "without_traffic": without_traffic}
        lease.record(lambda journal: journal.having(rollout=journal.rollout and journal.rollout.model_copy(update=update)))
        self._tell(f"{Phase.UNDO_SERVE}: {reason}")

    def _end(self, rollout: Rollout, lease: Lease) -> Result:
        serving = lease.journal.serving
        if rollout.phase.undoing:
            lease.record(lambda journal: journal.having(rollout=None))
            outcome = Outcome.NO_TRAFFIC if rollout.without_traffic else Outcome.UNDONE
            return Result(outcome, serving or "", rollout.changes, rollout.reason)
        lease.record(lambda journal: journal.having(serving=rollout.release, previous=serving, rollout=None))
        outcome = Outcome.SEEDED if rollout.phase is Phase.SEED else Outcome.DONE
        return Result(outcome, rollout.release, rollout.changes)

    def _nothing_to_do(self, release_id: str) -> Result:
        """Write the ConfigMap of served versions if it is out of date.

        It could not be written if live/ was filled before Triton was installed.
        """
        versions = self._release(release_id).manifest.versions
        wanted = {model: ServedVersion(stable=version) for model, version in versions.items()}
        try:
            told = self._fleet.served()
            if any(told.get(model) != version for model, version in wanted.items()):
                self._fleet.serve(wanted)
        except FleetAbsent as absent:
            self._tell(str(absent))
        return Result(Outcome.NOTHING_TO_DO, release_id)

    def _phases(self, rollout: Rollout, lease: Lease) -> Phases:
        site = Site(
            live=self._live,
            fleet=self._fleet,
            limits=self._limits,
            canary=self._wanted.canary,
            slo_p95_ms=self._wanted.slo_p95_ms,
            tell=self._tell,
            check=lease.check,
            replay=self._wanted.replay,
        )
        serving = lease.journal.serving
        old = self._release(serving) if serving is not None else None
        return Phases(site, rollout, old, self._release(rollout.release))

    def _release(self, release_id: str) -> StackRelease:
        return StackRelease(catalog.finished(self._store, release_id, self._wanted.signers), self._wanted.stack, self._store)


def _place(rollout: Rollout) -> str:
    return f"{rollout.phase} of {rollout.percent} %" if rollout.phase is Phase.CANARY else str(rollout.phase)


def _unfinished(rollout: Rollout) -> str:
    if rollout.back:
        return f"the return to release {rollout.release} ({rollout.phase}) is unfinished: `modelctl rollout --back` ends it"
    how = "being undone" if rollout.phase.undoing else "unfinished"
    undo = "" if rollout.phase.undoing else ", or undo it with `modelctl rollout --back`"
    return (
        f"the rollout of release {rollout.release} ({rollout.phase}) is {how}: finish it with "
        f"`modelctl rollout {rollout.release}`{undo}"
    )


def _sentence(change: Change) -> str:
    return f"{change.model} {change.old} -> {change.new}" if change.old is not None else f"{change.model} {change.new} (new)"
