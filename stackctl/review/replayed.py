"""Read what `twin replay STACK --against BASE --json` has printed, for the comment."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from spec import reading
from spec.reading import Unreadable
from stackctl.review.report import Figures, Replay, ReplayedFleet

_NUMBER = (int, float)


def read(file: Path, stack: str) -> Replay | None:
    """Return the fleets for which a trace comes to something else than before; None where there is none.

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
    return Replay(str(document.get("trace")), changed, tuple(document.get("notes") or ())) if changed else None


def _figures(fleet: dict[str, Any] | None, file: Path) -> Figures | None:
    if fleet is None:
        return None
    missed, hours, usd = (fleet.get(key) for key in ("missedShare", "gpuHours", "usd"))
    if not isinstance(missed, _NUMBER) or not isinstance(hours, _NUMBER) or not isinstance(usd, (*_NUMBER, type(None))):
        raise Unreadable("a fleet of it has no missedShare, gpuHours or usd; `twin replay --json` prints them", source=file)
    return Figures(Decimal(str(missed)), Decimal(str(hours)), None if usd is None else Decimal(str(usd)))
