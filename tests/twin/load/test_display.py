"""A load as shown to users: rows, lines, the summary and the picture."""

import io
import math
from dataclasses import replace

from rich.console import Console

from modelctl.loadgen import Outcome
from twin.load import report
from twin.load.counts import Counts
from twin.load.display import display, header, row
from twin.load.plot import of_scale, p95, plot
from twin.load.record import Moment, Tally
from twin.load.scaling import Scale, Signal

BUSY = Scale(3, 2, 1, 0, 1, Signal("busy-timed_batch", 0.9712, 0.7), 900.0)
QUIET = Scale(1, 1, 0, 2, 1)
WITH_NODES = replace(BUSY, nodes=Counts(ready=1, starting=2, ending=1))


def moment(at: float, scale: Scale | None = BUSY, failed: int = 0) -> Moment:
    return Moment(at, 29.6, 30.4, failed, 140.4, scale)


def printed(moments: list[Moment]) -> list[str]:
    text = io.StringIO()
    with display(Console(file=text, width=200)) as show:
        for one in moments:
            show.show(one)
    return text.getvalue().splitlines()


def test_a_row_has_a_cell_for_each_heading() -> None:
    cells = dict(zip(header(), row(moment(75.0)), strict=True))
    assert cells == {
        "time": "1:15",
        "offered/s": "30",
        "answered/s": "30",
        "failed": "0",
        "p95 ms": "140",
        "queued": "-",
        "wanted": "3",
        "ready": "2",
        "starting": "1",
        "pods": "■■□",
        "nodes": "-",
        "signal": "busy-timed_batch 0.971 of 0.7",
    }


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    nothing = dict(zip(header(), row(Moment(0, 0, 0, 0, None, QUIET, waiting=12)), strict=True))
    assert (nothing["p95 ms"], nothing["queued"], nothing["signal"], nothing["pods"]) == ("-", "12", "-", "■xx")
    assert row(Moment(0, 0, 0, 0, None, None))[6:] == ("?",) * 6


def test_without_a_terminal_there_is_a_line_for_each_change_and_else_one_in_five_seconds() -> None:
    lines = printed([*(moment(at) for at in range(7)), moment(7, failed=1), moment(8, QUIET, failed=1)])
    assert [line.split()[0] for line in lines] == ["time", "0:00", "0:05", "0:07", "0:08"]


def test_nodes_that_come_and_go_stand_beside_the_pods_and_are_news() -> None:
    assert dict(zip(header(), row(moment(0, WITH_NODES)), strict=True))["nodes"] == "■□□x"
    joined = replace(WITH_NODES, nodes=Counts(ready=2, starting=1, ending=1))
    lines = printed([moment(0, WITH_NODES), moment(1, WITH_NODES), moment(2, joined)])
    assert [line.split()[0] for line in lines] == ["time", "0:00", "0:02"]


def test_headings_stand_over_their_numbers() -> None:
    heading, first, *_ = printed([moment(0)])
    assert first.index("30") + len("30") == heading.index("offered/s") + len("offered/s")
    assert first.index("3  ") + 1 == heading.index("wanted") + len("wanted")


def tally(*codes: str) -> Tally:
    made = Tally([0.0] * len(codes))
    for number, code in enumerate(codes):
        made.add(Outcome(0.0, 0.0, 0.1 * (number + 1), code, "127.244.130.2:8001"))
    return made


def test_the_summary_says_what_was_answered_and_when_pods_came_and_went() -> None:
    moments = [moment(0, QUIET), moment(1, None), moment(2), moment(3), moment(4, QUIET)]
    assert list(report.lines(tally("OK", "OK", "UNAVAILABLE: Request timeout expired"), moments)) == [
        "3 requests: 2 answered, 1 failed; p50 100 ms, p95 200 ms",
        "  1 failed with UNAVAILABLE: Request timeout expired",
        "pods that answered: 1",
        "ready pods: 1 at first, 2 at most, 1 at the end (4 s)",
        "      2 s  wanted 3, ready 2",
        "      4 s  wanted 1, ready 1",
        "from wanted to ready: 0 s (startSeconds of the stack)",
    ]


def test_the_summary_says_how_long_each_pod_took_that_was_still_wanted_when_it_came() -> None:
    seen = [(0, 1, 1), (80, 3, 1), (95, 4, 1), (99, 4, 2), (104, 4, 3), (110, 3, 3), (200, 1, 1)]
    moments = [moment(at, Scale(wanted, ready, 0, 0, 1)) for at, wanted, ready in seen]
    assert list(report.lines(tally("OK"), moments))[-1] == "from wanted to ready: 19 s, 24 s (startSeconds of the stack)"


def test_the_summary_counts_nodes_and_does_not_take_the_start_of_a_node_for_that_of_a_pod() -> None:
    seen = [(0, 1, 1, 1), (10, 2, 1, 3), (70, 2, 2, 2)]
    moments = [moment(at, Scale(wanted, ready, 0, 0, 1, nodes=Counts(nodes, 0, 0))) for at, wanted, ready, nodes in seen]
    assert list(report.lines(tally("OK"), moments))[-2:] == [
        "from wanted to ready: 60 s",
        "ready nodes: 1 at first, 3 at most, 2 at the end",
    ]


def test_a_load_that_was_stopped_at_once_has_a_summary_too() -> None:
    assert list(report.lines(tally(), [])) == ["0 requests: 0 answered, 0 failed"]


def test_the_picture_has_gaps_where_nothing_is_known() -> None:
    moments = [moment(0), Moment(1, 0, 0, 0, None, None)]
    wanted = of_scale(moments, lambda scale: scale.wanted)
    assert wanted[0] == 3 and math.isnan(wanted[1])
    assert p95(moments)[0] == 140.4 and math.isnan(p95(moments)[1])


def test_the_picture_is_the_same_for_the_same_load_and_names_its_curves() -> None:
    drawn = plot([moment(0), moment(1, QUIET), moment(2, None)], "30 requests/s")
    assert drawn == plot([moment(0), moment(1, QUIET), moment(2, None)], "30 requests/s")
    assert drawn.startswith("<?xml") and "</svg>" in drawn
    assert "ready nodes" not in drawn


def test_the_picture_has_nodes_where_they_come_and_go() -> None:
    assert "ready nodes" in plot([moment(0), moment(1, WITH_NODES), moment(2, None)], "30 requests/s")
