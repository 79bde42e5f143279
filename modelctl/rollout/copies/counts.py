"""The results of copies by model, as the comparer exports them and the rollout reads them."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

COPIES = "triton_copies"
FARTHEST = "triton_copies_farthest_distance"


class Result(StrEnum):
    """The result of a copy.

    SAME: both releases gave the same response. DIFFERENT: the responses differ, or the candidate refused a request that the
    release answered. UNANSWERED: one response is missing, because the release refused the request, or a release had no time.
    DROPPED: no request was sent, because copies arrived faster than they were answered, or the copy was too large.
    """

    SAME = "same"
    DIFFERENT = "different"
    UNANSWERED = "unanswered"
    DROPPED = "dropped"


def parse(text: str) -> dict[str, Counter[Result]]:
    """Return the counts by model. Raises ValueError for text that is not metrics."""
    found: dict[str, Counter[Result]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"{COPIES}_total":
                counts = found.setdefault(sample.labels["model"], Counter())
                counts[Result(sample.labels["result"])] += int(sample.value)
    return found
