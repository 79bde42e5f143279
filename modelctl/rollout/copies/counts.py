"""The fate of copies, by model: as the comparer exports it, and as the rollout reads it."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

COPIES = "triton_copies"
FARTHEST = "triton_copies_farthest_distance"


class Result(StrEnum):
    """The fate of a copy: the candidate answers as the release does, or otherwise, or refuses what that answers.

    UNANSWERED: there are no two answers, because the release refuses it, or one of them had no time. DROPPED: nobody was
    asked, because copies came faster than they are answered, or it was too large.
    """

    SAME = "same"
    DIFFERENT = "different"
    UNANSWERED = "unanswered"
    DROPPED = "dropped"


def parse(text: str) -> dict[str, Counter[Result]]:
    """Return the counts by model. Raises ValueError for what are no metrics."""
    found: dict[str, Counter[Result]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"{COPIES}_total":
                counts = found.setdefault(sample.labels["model"], Counter())
                counts[Result(sample.labels["result"])] += int(sample.value)
    return found
