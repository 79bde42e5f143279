"""The outcome of each request during a change, compared with the expectation."""

from __future__ import annotations

import dataclasses

import pytest

from modelctl.loadgen import Outcome
from twin.rehearse.judgement import Effect, Finding, Rehearsal
from twin.rehearse.measured import Away, Measured, account, lines


def outcomes(codes: str) -> list[Outcome]:
    """Return one request a second: `.` is answered after 50 ms, `u` finds no pod, `t` is sent and gets no answer."""
    ends = {".": (0.05, "OK"), "u": (0.0, "UNAVAILABLE: no pod is ready"), "t": (None, "UNFINISHED")}
    return [
        Outcome(float(due), float(due), None if (after := ends[code][0]) is None else due + after, ends[code][1])
        for due, code in enumerate(codes)
    ]


@pytest.mark.parametrize(
    ("codes", "answered", "away"),
    [
        ("....", 4, None),
        (".u..", 3, Away(1, 2, 1)),
        (".u.uuu.u.", 4, Away(3, 6, 3)),
        ("..tu", 2, Away(2, 3, 2)),
        ("", 0, None),
    ],
)
def test_each_request_has_its_end_and_the_longest_time_without_an_answer_is_found(
    codes: str, answered: int, away: Away | None
) -> None:
    found = account(outcomes(codes))
    assert (found.sent, found.answered, found.lost) == (len(codes), answered, len(codes) - answered)
    assert found.away == away
    assert sum(found.reasons.values()) == found.lost
    assert found.longest_ms == pytest.approx(50 if answered else 0)


def test_the_reasons_are_told_apart_the_most_frequent_first() -> None:
    assert list(account(outcomes("tu.u")).reasons.items()) == [("UNAVAILABLE: no pod is ready", 2), ("UNFINISHED", 1)]


def judged(effect: Effect) -> Rehearsal:
    return Rehearsal((Finding(effect, "update", "kubernetes:apps/v1:Deployment", "triton", (), None, None),), (), ())


REFUSED = "UNAVAILABLE: in ensemble 'pipeline', Request timeout expired"


def last_line(codes: str, effect: Effect) -> str:
    return list(lines(account(outcomes(codes)), judged(effect), 1, "m"))[-1].strip()


def test_the_measurement_is_compared_with_the_judgement() -> None:
    assert last_line("...", "rolled") == "as expected"
    assert last_line(".u.", "interrupted") == "as expected"
    assert last_line(".u.", "rolled") == "no lost request was expected: believe what was measured"
    assert last_line("...", "interrupted").startswith("no request was lost, though an interruption was expected: ")


@pytest.mark.parametrize(
    ("reasons", "is_told"),
    [
        ({REFUSED: 2}, True),
        ({"UNAVAILABLE: no pod is ready": 2}, False),
        ({REFUSED: 1, "UNAVAILABLE: no pod is ready": 1}, False),
    ],
)
def test_requests_that_the_queue_refused_may_be_the_machines_doing(reasons: dict[str, int], is_told: bool) -> None:
    seen = dataclasses.replace(account(outcomes(".uu.")), reasons=reasons)
    *_, said = lines(seen, judged("rolled"), 10, "pipeline")
    assert said.startswith("  no lost request was expected: ")
    assert said.endswith("To know which, rehearse it again where nothing else runs") is is_told


def test_a_person_reads_what_was_lost_interrupted_and_replaced() -> None:
    seen = dataclasses.replace(
        account(outcomes(".uu.u")), pods=2, kept=1, resources={"same": 90, "update": 1}, ended="no room"
    )
    assert list(lines(seen, judged("interrupted"), 10, "pipeline")) == [
        "\nMEASURED on the twin, with 10 requests/s to pipeline while the change was made:",
        "  5 requests: 2 answered, 3 lost; the longest answer took 50 ms",
        "      3 with UNAVAILABLE: no pod is ready",
        "  interrupted for 2.0 s at the longest: 2 requests one after the other, 1 s after the load began",
        "  gone: 1 of 2 pods of Triton; resources: 1 update",
        "  the change did not come to its end, so that nothing is compared: no room",
    ]


def test_a_lone_lost_request_is_one() -> None:
    said = list(lines(account(outcomes(".u.")), judged("rolled"), 10, "pipeline"))
    assert said[3] == "  interrupted for 1.0 s at the longest: 1 request, 1 s after the load began"


def test_nothing_sent_is_nothing_lost() -> None:
    assert account([]) == Measured(0, 0, {}, None, 0.0)
