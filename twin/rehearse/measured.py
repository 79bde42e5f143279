"""Account for the requests of a load during which a change was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from modelctl.loadgen import Outcome
from modelctl.loadgen.grpc_sender import SHED_WORDS
from twin.rehearse.judgement import Effect, Rehearsal

_REASONS = 5
_DOWN: tuple[Effect, ...] = ("refused", "interrupted")
"""If a finding has one of these effects, some requests are expected to fail."""
_REFUSED = (
    "no lost request was expected: each was refused by Triton's queue, because of the change, or because this machine was "
    "busy with starting servers. To know which, rehearse it again where nothing else runs"
)


@dataclass(frozen=True)
class Away:
    """A period without any response, in seconds since the load began.

    It lasts from the first of `requests` consecutive failed requests to the next request that succeeded.
    """

    begin: float
    end: float
    requests: int

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class Measured:
    """The outcome of every request of a load: sent = answered + lost; `reasons` counts the causes of lost requests.

    `away`: the longest period without a response, None if no request was lost. `longest_ms`: the slowest response.
    `pods`: Triton's pods before the change, of which `kept` still exist. `resources`: the engine's operations, counted.
    `ended`: why the change failed half-way; None if it completed.
    """

    sent: int
    answered: int
    reasons: Mapping[str, int]
    away: Away | None
    longest_ms: float
    pods: int = 0
    kept: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)
    ended: str | None = None

    @property
    def lost(self) -> int:
        return self.sent - self.answered


def account(outcomes: Sequence[Outcome]) -> Measured:
    """Return the figures for all requests that were due, in the order in which they were due."""
    lost = [outcome for outcome in outcomes if not outcome.ok]
    return Measured(
        sent=len(outcomes),
        answered=len(outcomes) - len(lost),
        reasons=dict(Counter(outcome.code for outcome in lost).most_common()),
        away=max(_away(outcomes), key=lambda one: one.seconds, default=None),
        longest_ms=max((outcome.latency_ms for outcome in outcomes if outcome.ok), default=0.0),
    )


def _away(outcomes: Sequence[Outcome]) -> Iterator[Away]:
    begun: list[float] = []
    for outcome in outcomes:
        if not outcome.ok:
            begun.append(outcome.due)
        elif begun:
            yield Away(begun[0], outcome.due, len(begun))
            begun = []
    if begun:
        yield Away(begun[0], outcomes[-1].due, len(begun))


def lines(measured: Measured, judged: Rehearsal, rate: float, model: str) -> Iterator[str]:
    """Yield the lines that are printed below the judgement, and whether the two agree."""
    lost, away = measured.lost, measured.away
    yield f"\nMEASURED on the twin, with {rate:g} requests/s to {model} while the change was made:"
    yield (
        f"  {measured.sent} requests: {measured.answered} answered, {lost} lost; "
        f"the longest answer took {measured.longest_ms:.0f} ms"
    )
    for reason, count in list(measured.reasons.items())[:_REASONS]:
        yield f"      {count} with {reason}"
    if away is not None:
        several = "1 request" if away.requests == 1 else f"{away.requests} requests one after the other"
        yield f"  interrupted for {away.seconds:.1f} s at the longest: {several}, {away.begin:.0f} s after the load began"
    made = ", ".join(f"{count} {operation}" for operation, count in measured.resources.items() if operation != "same")
    yield f"  gone: {measured.pods - measured.kept} of {measured.pods} pods of Triton; resources: {made or 'no change'}"
    if measured.ended is not None:
        yield f"  the change did not come to its end, so that nothing is compared: {measured.ended}"
    else:
        yield f"  {_compared(measured, judged)}"


def _compared(measured: Measured, judged: Rehearsal) -> str:
    expected = any(finding.effect in _DOWN for finding in judged.findings)
    if measured.lost and not expected:
        refused = all(map(_is_refusal, measured.reasons))
        return _REFUSED if refused else "no lost request was expected: believe what was measured"
    if expected and not measured.lost:
        return (
            "no request was lost, though an interruption was expected: machines come at once here, and requests pass by "
            "much of what AWS has"
        )
    return "as expected"


def _is_refusal(reason: str) -> bool:
    return any(words in reason for words in SHED_WORDS)
