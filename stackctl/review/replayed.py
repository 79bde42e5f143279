"""Read what `twin replay STACK --against BASE --json` has printed, for the comment."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from spec import reading
from spec.reading import Unreadable
from stackctl.review.report import Figures, Replay, ReplayedFleet

_NUMBER = (int, float)
_KEYS = ("missedShare", "gpuHours", "usd", "longestShortageSeconds", "turns")


def read(file: Path, stack: str) -> Replay | None:
    """Return the fleets for which a trace comes to something else than before; None where there is no before.

    Raises Unreadable.
    """
    document = reading.json_file(file)
    reading.checked(document, {"stack": str, "trace": str, "after": {str: dict}, "before": {str: dict}, "notes": [str]}, "")
    if document.get("stack") != stack:
        raise Unreadable(f"it is of the stack {document.get('stack')}, not of {stack}", source=file)
    before, after = document.get("before"), document.get("after") or {}
    if before is None:
        return None
    fleets = tuple(
        ReplayedFleet(name, _figures(before.get(name), file), _figures(after.get(name), file))
        for name in dict.fromkeys((*after, *before))
    )
    changed = tuple(fleet for fleet in fleets if fleet.before != fleet.after)
    return Replay(str(document.get("trace")), changed, tuple(document.get("notes") or ()))


def _figures(fleet: dict[str, Any] | None, file: Path) -> Figures | None:
    if fleet is None:
        return None
    missed, hours, usd, shortage, turns = map(fleet.get, _KEYS)
    if not isinstance(missed, _NUMBER) or not isinstance(hours, _NUMBER) or not isinstance(usd, (*_NUMBER, type(None))):
        raise _incomplete(file)
    if type(shortage) is not int or type(turns) is not int:
        raise _incomplete(file)
    return Figures(Decimal(str(missed)), Decimal(str(hours)), None if usd is None else Decimal(str(usd)), shortage, turns)


def _incomplete(file: Path) -> Unreadable:
    return Unreadable(f"a fleet of it has not all of {', '.join(_KEYS)}; `twin replay --json` prints them", source=file)
