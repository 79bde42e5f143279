"""`live/rollout.json`: what the prefix `live/` serves, the lock's holder, and the progress of a rollout.

One object holds the lock and the journal, so only the holder of the lock can record a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.store.manifest import Name, ReleaseId, StackName, Version
from spec.failure import Failure

_REMEDY = "restore its earlier object version, modelctl writes it"
_SHORT_ID = re.compile(r'"(serving|previous|release)":\s*"([0-9a-f]{12})"')
_ALL = 100


class JournalError(Failure):
    """live/rollout.json was not written by modelctl, or was changed afterwards."""


class JournalChanged(Exception):
    """The journal has changed since it was read."""


class Phase(StrEnum):
    """The next phase of an unfinished rollout, in order; UNDO_… phases belong to a rollback.

    SEED fills an empty live/. COPY puts the new version next to the old one, LOAD loads it on every pod. CANARY gives it a
    share of the requests, FLIP gives it all, WATCH judges it by these. DRAIN waits until clients stop requesting the old
    version, SETTLE unloads it, CLEAN deletes it. UNDO_SERVE gives all requests to the old version again, UNDO_DRAIN waits
    until clients stop requesting the new version, UNDO_PODS unloads it, UNDO_CLEAN deletes it.
    """

    SEED = "seed"
    COPY = "copy"
    LOAD = "load"
    CANARY = "canary"
    FLIP = "flip"
    WATCH = "watch"
    DRAIN = "drain"
    SETTLE = "settle"
    CLEAN = "clean"
    UNDO_SERVE = "undo-serve"
    UNDO_DRAIN = "undo-drain"
    UNDO_PODS = "undo-pods"
    UNDO_CLEAN = "undo-clean"

    @property
    def undoing(self) -> bool:
        return self.value.startswith("undo-")


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Lock(_Document):
    """The holder of the lock of live/, and when it expires (renewed while the holder works)."""

    holder: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,500}$")]
    expires: AwareDatetime


class Change(_Document):
    """One model of a rollout; `old` None: the model is new in the release."""

    model: Name
    old: Version | None
    new: Version


class Rollout(_Document):
    """An unfinished rollout of `release`. `percent`: the share of requests for the new versions.

    `back`: it returns to an earlier release. `reason`: why it is rolled back. `without_traffic`: because its canary got too
    few requests to be judged.
    """

    release: ReleaseId
    phase: Phase
    changes: tuple[Change, ...]
    started: AwareDatetime
    percent: Annotated[int, Field(ge=0, le=100)] = 0
    back: bool = False
    reason: str | None = None
    without_traffic: bool = False

    def at(self, phase: Phase) -> Rollout:
        return self.model_copy(update={"phase": phase})


class Journal(_Document):
    """The whole document. `serving` is the release that live/ serves (None: nothing yet), `previous` the one before."""

    schema_version: documents.FirstSchema = Field(default=1, alias="schema")
    stack: StackName | None = None
    serving: ReleaseId | None = None
    previous: ReleaseId | None = None
    rollout: Rollout | None = None
    lock: Lock | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a journal from JSON. Raises JournalError."""
        if short := _SHORT_ID.search(text):
            raise JournalError(
                f"live/rollout.json: {short[1]}: {short[2]} is the short id of an earlier version, which others can "
                "imitate; run `modelctl release` on its models again, and write the id that it prints there"
            )
        try:
            journal = documents.read(cls, text.encode(errors="surrogatepass"))
        except DocumentError as error:
            raise JournalError(f"live/rollout.json: {error}; {_REMEDY}") from None
        if journal.rollout is not None and (wrong := [*_contradictions(journal.rollout, journal.serving)]):
            raise JournalError(f"live/rollout.json: {'; '.join(wrong)}; {_REMEDY}")
        return journal

    @property
    def releases(self) -> frozenset[str]:
        """Return the releases that must not be retired. These are the served one, the target of `--back`, and the one being
        rolled out."""
        rolling = self.rollout.release if self.rollout is not None else None
        return frozenset(release for release in (self.serving, self.previous, rolling) if release is not None)

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    def having(self, **changes: object) -> Self:
        return self.model_copy(update=changes)


def _contradictions(rollout: Rollout, serving: str | None) -> Iterator[str]:
    """Yield contents that no rollout writes, and that would delete a version which clients may still request."""
    for index, change in enumerate(rollout.changes):
        # The old version is deleted when the new one serves.
        if change.old == change.new or change.model in {earlier.model for earlier in rollout.changes[:index]}:
            yield (f"rollout.changes.{index}: {change.model} is there twice, or changes from version {change.old} to itself")
    if rollout.percent not in (shares := _SHARES.get(rollout.phase, range(_ALL + 1))):
        expected = f"{shares[0]} to {shares[-1]}" if len(shares) > 1 else str(shares[0])
        yield f"rollout.percent: {rollout.percent}, and in the phase {rollout.phase} the new versions have {expected} %"
    if serving is None and rollout.phase is not Phase.SEED:
        yield f"serving: none, and the phase {rollout.phase} replaces a release that serves"
    if serving is not None and rollout.phase is Phase.SEED:
        yield f"serving: {serving}, and the phase {rollout.phase} fills a live/ that serves nothing"
    if serving == rollout.release:
        yield f"rollout.release: {serving} serves already, so that it would replace itself"
    if (rollout.reason is not None) != rollout.phase.undoing:
        has = "no" if rollout.reason is None else "a"
        yield f"rollout.reason: there is {has} reason why it is being undone, in the phase {rollout.phase}"


_SHARES = {
    **dict.fromkeys((Phase.SEED, Phase.COPY, Phase.LOAD), range(1)),
    Phase.CANARY: range(1, _ALL),
    Phase.FLIP: range(_ALL),
    **dict.fromkeys((Phase.WATCH, Phase.DRAIN, Phase.SETTLE, Phase.CLEAN), range(_ALL, _ALL + 1)),
}
"""The percentages that the new versions may have when a phase begins. UNDO phases may follow any percentage."""
