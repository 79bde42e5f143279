"""The replayed load in the comment: told where it makes a difference, and never in the place of a report."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spec.reading import Unreadable
from stackctl.review import replayed
from stackctl.review.report import Figures, Replay, ReplayedFleet

FLEET = {"missedShare": 0.01, "gpuHours": 24.0, "usd": 24.14, "wanted": [{"second": 0, "pods": 1}]}


def printed(folder: Path, **changes: Any) -> Path:
    document = {"stack": "prod", "trace": "diurnal", "before": {"triton": FLEET}, "after": {"triton": FLEET}, "notes": ["n"]}
    file = folder / "replay.json"
    file.write_text(json.dumps({**document, **changes}))
    return file


def test_what_is_the_same_is_not_told(tmp_path: Path) -> None:
    assert replayed.read(printed(tmp_path), "prod") is None
    assert replayed.read(printed(tmp_path, before=None), "prod") is None


def test_a_fleet_that_changes_is_told_and_the_others_are_not(tmp_path: Path) -> None:
    worse = {**FLEET, "missedShare": 0.25, "usd": None}
    file = printed(tmp_path, before={"a": FLEET, "b": FLEET}, after={"a": worse, "b": FLEET, "c": FLEET})
    same = Figures(Decimal("0.01"), Decimal("24.0"), Decimal("24.14"))
    assert replayed.read(file, "prod") == Replay(
        "diurnal",
        (
            ReplayedFleet("a", same, Figures(Decimal("0.25"), Decimal("24.0"), None)),
            ReplayedFleet("c", None, same),
        ),
        ("n",),
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stack": "dev"}, "it is of the stack dev, not of prod"),
        ({"after": {"triton": {}}}, "a fleet of it has no missedShare, gpuHours or usd"),
        ({"after": []}, "after"),
        ({"trace": 3}, "trace"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        replayed.read(printed(tmp_path, **changes), "prod")
