"""Say how a claim fared on an account: it agreed, it differed, or it was not tried, with the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """`not tried` also where AWS or the cluster did not answer, so that nothing is known either way."""

    AGREE = "agree"
    DIFFER = "differ"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Outcome:
    """A verdict, and what was seen: one sentence each."""

    verdict: Verdict
    evidence: tuple[str, ...]


def agree(*evidence: str) -> Outcome:
    """Return that the claim held, with what was seen."""
    return Outcome(Verdict.AGREE, evidence)


def differ(*evidence: str) -> Outcome:
    """Return that the claim did not hold, with what was seen instead."""
    return Outcome(Verdict.DIFFER, evidence)


def not_tried(why: str) -> Outcome:
    """Return that nothing is known, and why."""
    return Outcome(Verdict.NOT_TRIED, (why,))


def judged(seen: Iterable[tuple[bool, str]], nothing: Outcome) -> Outcome:
    """Return `differ` with what does not hold, else `agree` with what does; `nothing` where nothing was seen."""
    lines = list(seen)
    wrong = [line for holds, line in lines if not holds]
    if wrong:
        return differ(*wrong)
    return agree(*(line for _, line in lines)) if lines else nothing
