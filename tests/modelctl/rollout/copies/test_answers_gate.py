"""The gate's check of mirrored answers: how many may differ, how many it needs, and its messages."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from modelctl.rollout.copies.counts import Result, parse
from modelctl.rollout.copies.gate import AnswersGate, CopiedModel

MODEL = CopiedModel("m", 2, "aaaaaaaaaaaa")
LOGS = "`kubectl -n triton logs deployment/triton-compare` says how"


def counted(same: int, different: int = 0, unanswered: int = 0, dropped: int = 0) -> dict[str, Counter[Result]]:
    numbers = (same, different, unanswered, dropped)
    return {"m": Counter(dict(zip(Result, numbers, strict=True)))}


def gate(may_differ: float, *counts: dict[str, Counter[Result]], least: int = 100) -> AnswersGate:
    found = AnswersGate([MODEL], may_differ, least)
    for number, one in enumerate(counts):
        found.look({f"pod-{number}": one})
    return found


@pytest.mark.parametrize(
    ("may_differ", "same", "different", "refused", "left"),
    [
        (0.0, 0, 1, True, True),
        (0.0, 298, 0, False, True),
        (0.0, 299, 0, False, False),
        (0.01, 200, 0, False, True),
        (0.01, 300, 0, False, False),
        (0.01, 990, 10, False, False),
        (0.01, 294, 6, False, True),
        (0.01, 186, 14, True, True),
        (0.5, 20, 80, True, True),
        (0.5, 60, 40, False, False),
    ],
)
def test_one_is_refused_that_differs_more_often_than_it_may_as_soon_as_that_is_certain(
    may_differ: float, same: int, different: int, refused: bool, left: bool
) -> None:
    judged = gate(may_differ, counted(same, different))
    assert (bool(judged.breaches()), bool(judged.undecided())) == (refused, left)


@pytest.mark.parametrize("may_differ", [0.01, 0.05, 0.3])
def test_the_error_rates_are_those_of_the_other_questions(may_differ: float) -> None:
    """Of 200 candidates each: those at the limit are refused in at most 1 %, bad ones pass in 5 %."""
    ended = {}
    for share in (may_differ, max(2 * may_differ, may_differ + 0.01)):
        refused = 0
        for seed in range(200):
            chance = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
            same = different = 0
            while True:
                for _ in range(10):
                    other = chance.random() < share
                    different, same = different + other, same + (not other)
                judged = gate(may_differ, counted(same, different))
                if judged.breaches() or not judged.undecided() or same + different > 5000:
                    break
            refused += bool(judged.breaches())
        ended[share] = refused / 200
    at_limit, bad = ended.values()
    assert at_limit <= 0.03  # 1 %, and the chance variation over 200
    assert bad >= 0.92


def test_what_was_seen_is_told_with_what_could_not_be_compared() -> None:
    judged = gate(0.01, counted(690, 10, unanswered=3, dropped=7))
    figures = (
        "m version 2: 10 of 700 copies (1.4%) answered otherwise than by release aaaaaaaaaaaa, 1% may "
        "(3 have no two answers and 7 were too many at once or too large)"
    )
    assert judged.figures() == [figures]
    assert judged.undecided() == [f"{figures}; they do not tell whether 2% are"]
    assert gate(0.0, counted(5)).undecided() == [
        "m version 2: 0 of 5 copies answered otherwise than by release aaaaaaaaaaaa, 0% may, of the 100 that it takes"
    ]
    assert gate(0.0, counted(50, 50)).breaches() == [
        f"m version 2: 50 of 100 copies (50.0%) answered otherwise than by release aaaaaaaaaaaa, 0% may; {LOGS}"
    ]
    assert gate(0.0).undecided() == [
        "m version 2: 0 of 0 copies answered otherwise than by release aaaaaaaaaaaa, 0% may, of the 100 that it takes"
    ]


def test_a_comparer_that_was_started_again_begins_anew_and_nothing_is_forgotten() -> None:
    judged = AnswersGate([MODEL], 0.5, 1)
    for one in (counted(100), counted(150), counted(10, 5), counted(20, 5)):
        judged.look({"pod": one})
    judged.look({"another": counted(1)})
    assert judged.figures() == [
        "m version 2: 5 of 176 copies (2.8%) answered otherwise than by release aaaaaaaaaaaa, 50% may"
    ]


def test_other_metrics_are_left_out_and_what_is_none_is_refused() -> None:
    text = '# TYPE up gauge\nup 1\n# TYPE triton_copies counter\ntriton_copies_total{model="m",result="same"} 7\n'
    assert parse(text) == {"m": Counter({Result.SAME: 7})}
    with pytest.raises(ValueError):
        parse('triton_copies_total{model="m",result="better"} 7\n')
