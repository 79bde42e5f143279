"""Loads of sequences: the number of open ones follows from rate and pace, each in its order."""

import itertools
from collections import Counter, defaultdict

import pytest

from modelctl.loadgen import Pace
from modelctl.loadgen.sequences import schedule_of

PACE = Pace(requests=20, gap_seconds=0.05)
"""A sequence lasts a second, so 40 requests/s are two voices."""


@pytest.mark.parametrize("rate", [20.0, 40.0, 200.0])
def test_the_rate_is_that_of_all_requests(rate: float) -> None:
    schedule, places = schedule_of(PACE, rate, 30, seed=1)
    assert len(schedule.due) == len(places)
    assert schedule.rate == pytest.approx(rate, rel=0.05)


def test_as_many_sequences_are_open_at_the_beginning_as_later() -> None:
    schedule, places = schedule_of(PACE, 200, 30, seed=1)
    open_in = [
        len({place.sequence for due, place in zip(schedule.due, places, strict=True) if second <= due < second + 0.05})
        for second in (0, 1, 10, 20, 29)
    ]
    assert open_in == pytest.approx([10] * 5, abs=1)


def test_a_sequence_begins_and_ends_once_and_keeps_its_pace() -> None:
    schedule, places = schedule_of(PACE, 40, 10, seed=3)
    moments = defaultdict(list)
    for due, place in zip(schedule.due, places, strict=True):
        moments[place.sequence].append((due, place.first, place.last))
    for requests in moments.values():
        assert [first for _, first, _ in requests] == [True] + [False] * (len(requests) - 1)
        assert [last for *_, last in requests] == [False] * (len(requests) - 1) + [True]
        dues = [due for due, *_ in requests]
        gaps = [after - before for before, after in itertools.pairwise(dues)]
        assert gaps == pytest.approx([PACE.gap_seconds] * len(gaps))
    # Sequences in the middle are complete; at both ends they are cut.
    assert Counter(map(len, moments.values())).most_common(1)[0][0] == PACE.requests


def test_a_schedule_is_the_same_for_a_seed() -> None:
    assert schedule_of(PACE, 40, 10, seed=3) == schedule_of(PACE, 40, 10, seed=3)
    assert schedule_of(PACE, 40, 10, seed=3) != schedule_of(PACE, 40, 10, seed=4)
