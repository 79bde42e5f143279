"""The gate that judges by mirrored requests: does the candidate respond like the release?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelctl.rollout import likelihood
from modelctl.rollout.copies.counts import Result
from modelctl.rollout.gate import PASS, REFUSE
from spec.names import COMPARER, TRITON_NAMESPACE

_TIMES = 2
_LEAST_MORE = 0.01
_LOGS = f"`kubectl -n {TRITON_NAMESPACE} logs deployment/{COMPARER}` says how"


@dataclass(frozen=True)
class CopiedModel:
    """A model whose responses are compared. It has the version on trial, and the release of the other version."""

    model: str
    version: int
    old_release: str

    def __str__(self) -> str:
        return f"{self.model} version {self.version}"


class AnswersGate:
    """Judge by what the comparers of this candidate have counted since they started.

    `may_differ`: the share of responses that may differ. Twice that share is bad, with a minimum of one hundredth above it.
    The error rates are the same as for the other questions.
    """

    def __init__(self, models: Sequence[CopiedModel], may_differ: float, least: int) -> None:
        self._models = models
        self._may = may_differ
        self._bad = min((1 + may_differ) / 2, max(_TIMES * may_differ, may_differ + _LEAST_MORE))
        self._least = least
        self._closed: dict[str, Counter[Result]] = {}
        self._last: dict[tuple[str, str], Counter[Result]] = {}

    def look(self, counts: Mapping[str, Mapping[str, Counter[Result]]]) -> None:
        """Record the counts of each comparer by model; keys are pod uids. A restarted comparer counts from zero."""
        for uid, found in counts.items():
            for model, now in found.items():
                last = self._last.get((uid, model), Counter())
                if now.total() < last.total():
                    self._closed[model] = self._closed.get(model, Counter()) + last
                self._last[uid, model] = now

    def breaches(self) -> list[str]:
        """Return the reasons why the candidate must not get requests, a sentence each."""
        return [f"{self._seen(one)}; {_LOGS}" for one in self._models if self._weight(one) >= REFUSE]

    def undecided(self) -> list[str]:
        """Return the questions that need more copies, a sentence each."""
        sentences = []
        for one in self._models:
            _, compared = self._compared(one)
            if compared < self._least:
                sentences.append(f"{self._seen(one)}, of the {self._least} that it takes")
            elif self._weight(one) > PASS:
                sentences.append(f"{self._seen(one)}; they do not tell whether {self._bad * 100:.3g}% are")
        return sentences

    def figures(self) -> list[str]:
        """Return the figures of each model, a line each."""
        return [self._seen(one) for one in self._models]

    def _of(self, model: str) -> Counter[Result]:
        total = Counter(self._closed.get(model, Counter()))
        for key, last in self._last.items():
            if key[1] == model:
                total.update(last)
        return total

    def _compared(self, one: CopiedModel) -> tuple[int, int]:
        """Return the number of different responses, and the number of compared responses."""
        counts = self._of(one.model)
        return counts[Result.DIFFERENT], counts[Result.DIFFERENT] + counts[Result.SAME]

    def _weight(self, one: CopiedModel) -> float:
        return likelihood.of_share(*self._compared(one), self._may, self._bad)

    def _seen(self, one: CopiedModel) -> str:
        counts = self._of(one.model)
        different, compared = self._compared(one)
        share = f" ({different / compared:.1%})" if different else ""
        said = (
            f"{one}: {different} of {compared} copies{share} answered otherwise than by release {one.old_release}, "
            f"{self._may * 100:.3g}% may"
        )
        left = [
            (counts[Result.UNANSWERED], "have no two answers"),
            (counts[Result.DROPPED], "were too many at once or too large"),
        ]
        others = " and ".join(f"{count} {why}" for count, why in left if count)
        return f"{said} ({others})" if others else said
