"""Read the claims of docs/proven.md; each row of its tables is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec import reading

PAGE = Path("docs/proven.md")
_CELLS = 4
_HEADING = "## "


@dataclass(frozen=True)
class Claim:
    """A claim of the page, under its heading. `not_shown`: the limits that the page gives for its tests."""

    section: str
    text: str
    not_shown: str = ""


def read(page: Path = PAGE) -> list[Claim]:
    """Return the claims in the order of the page. Raises Unreadable without a page, or without a claim on it."""
    section, claims = "", []
    for line in reading.text_file(page).splitlines():
        if line.startswith(_HEADING):
            section = line.removeprefix(_HEADING).strip()
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == _CELLS and cells[0] != "claim" and set(cells[0]) != {"-"}:
            claims.append(Claim(section, cells[0], cells[-1]))
    if not claims:
        raise reading.Unreadable(f"{page} has no table of claims; take the file from the checkout")
    return claims
