"""The replayed load in the comment: shown if it makes a difference, and never instead of a report."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spec.reading import Unreadable
from stackctl.review import collect, figures
from stackctl.review.report import Figures, Replay, ReplayedFleet

FLEET = {"missedShare": 0.01, "gpuHours": 24.0, "usd": 24.14, "longestShortageSeconds": 40, "turns": 2, "wanted": []}


def figured(missed: str = "0.01", usd: str | None = "24.14", shortage: int = 40) -> Figures:
    """Return FLEET's figures, with these changes."""
    return Figures(Decimal(missed), Decimal("24.0"), None if usd is None else Decimal(usd), shortage, 2)


def in_words(before: Figures, after: Figures) -> str:
    head = figures.replays((Replay("diurnal", (ReplayedFleet("triton", before, after),)),)).head
    (line,) = [line for line in head.splitlines() if line.startswith("* ")]
    return line.removeprefix("* `diurnal`, `triton`: ")


def printed(folder: Path, **changes: Any) -> Path:
    document = {"stack": "prod", "trace": "diurnal", "before": {"triton": FLEET}, "after": {"triton": FLEET}, "notes": ["n"]}
    file = folder / "replay.json"
    file.write_text(json.dumps({**document, **changes}))
    return file


def test_of_what_is_the_same_the_load_is_named_where_another_makes_a_difference(tmp_path: Path) -> None:
    assert collect.read_replay(printed(tmp_path, before=None), "prod") is None
    same = collect.read_replay(printed(tmp_path), "prod")
    assert same == Replay("diurnal", (), ("n",))
    assert not figures.replays((same,)).items
    other = Replay("flash-crowd", (ReplayedFleet("triton", figured(), figured(missed="0.2")),), ("n",))
    told = figures.replays((same, other))
    assert "\nNo difference: `diurnal`.\n" in told.head
    assert "assumed" not in told.head
    assert told.items == ("| `flash-crowd` | `triton` | 1.00% → 20.00% | 40 s | 24.0 | 24.14 | 2 |",)


def test_a_fleet_that_changes_is_told_and_the_others_are_not(tmp_path: Path) -> None:
    worse = {**FLEET, "missedShare": 0.25, "usd": None}
    file = printed(tmp_path, before={"a": FLEET, "b": FLEET}, after={"a": worse, "b": FLEET, "c": FLEET})
    same = figured()
    assert collect.read_replay(file, "prod") == Replay(
        "diurnal",
        (
            ReplayedFleet("a", same, figured("0.25", usd=None)),
            ReplayedFleet("c", None, same),
        ),
        ("n",),
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stack": "dev"}, "it is of the stack dev, not of prod"),
        (
            {"after": {"triton": {}}},
            "a fleet of it has not all of missedShare, gpuHours, usd, longestShortageSeconds, turns",
        ),
        ({"after": {"triton": {**FLEET, "turns": 1.5}}}, "a fleet of it has not all of missedShare"),
        ({"after": []}, "after"),
        ({"trace": 3}, "trace"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        collect.read_replay(printed(tmp_path, **changes), "prod")


@pytest.mark.parametrize(
    ("missed", "hours", "said"),
    [
        ("0.0034", "96", "**worse**: of 10,000 requests 34 miss the SLO, 3 before; as many GPU-hours."),
        ("0.0034", "120", "**worse**: of 10,000 requests 34 miss the SLO, 3 before; 24.0 GPU-hours (25.0%) more."),
        (
            "0.0034",
            "72",
            "**more misses, for less money**: of 10,000 requests 34 miss the SLO, 3 before; 24.0 GPU-hours (25.0%) ",
        ),
        (
            "0.0003",
            "97",
            "**costs more, for the same misses**: of 10,000 requests 3 miss the SLO, 3 before; 1.0 GPU-hours (1.0%) more.",
        ),
        ("0.00031", "96.01", "**about the same**: of 10,000 requests 3 miss the SLO, 3 before; as many GPU-hours."),
        ("0.0003", "95", "**costs less, for the same misses**: of 10,000 requests 3 miss the SLO, 3 before; 1.0 GPU-hours "),
        ("0", "96", "**better**: of 10,000 requests 0 miss the SLO, 3 before; as many GPU-hours."),
        ("0", "97", "**fewer misses, for more money**: "),
        ("0", "95", "**better**: "),
    ],
)
def test_the_comment_says_in_words_how_much_worse_it_is(missed: str, hours: str, said: str) -> None:
    before, after = (Figures(Decimal(one), Decimal(pods), None) for one, pods in (("0.0003", "96"), (missed, hours)))
    assert in_words(before, after).startswith(said)


def test_the_comment_says_how_much_longer_there_is_no_capacity() -> None:
    assert in_words(figured(), figured(shortage=1610)) == (
        "**about the same**: of 10,000 requests 100 miss the SLO, 100 before; "
        "without capacity for up to 1,610 s at a time, 40 s before; as many GPU-hours."
    )


def test_a_fleet_that_was_not_there_is_no_better_and_no_worse() -> None:
    new = ReplayedFleet("triton", None, Figures(Decimal(0), Decimal(24), None))
    assert "* " not in figures.replays((Replay("diurnal", (new,)),)).head


def test_a_strangers_numbers_of_any_size_are_told() -> None:
    huge = Figures(Decimal("1E+5000"), Decimal("1E+5000"), None)
    head = figures.replays((Replay("x", (ReplayedFleet("t", Figures(Decimal(0), Decimal(0), None), huge),)),)).head
    assert "**worse**: of 10,000 requests 1" in head
