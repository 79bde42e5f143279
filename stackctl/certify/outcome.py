"""Define the result of a claim: agree, differ or not tried, with the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The result of a claim. `not tried` includes a missing answer from AWS or the cluster."""

    AGREE = "agree"
    DIFFER = "differ"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Outcome:
    """A verdict and its evidence, one sentence each."""

    verdict: Verdict
    evidence: tuple[str, ...]


def agree(*evidence: str) -> Outcome:
    """Return that the claim holds, with the evidence."""
    return Outcome(Verdict.AGREE, evidence)


def differ(*evidence: str) -> Outcome:
    """Return that the claim does not hold, with the evidence."""
    return Outcome(Verdict.DIFFER, evidence)


def not_tried(why: str) -> Outcome:
    """Return that the result is unknown, with the reason."""
    return Outcome(Verdict.NOT_TRIED, (why,))


def judged(seen: Iterable[tuple[bool, str]], nothing: Outcome) -> Outcome:
    """Return `differ` with the failed observations, otherwise `agree` with all of them.

    Without observations, return `nothing`.
    """
    lines = list(seen)
    wrong = [line for holds, line in lines if not holds]
    if wrong:
        return differ(*wrong)
    return agree(*(line for _, line in lines)) if lines else nothing
