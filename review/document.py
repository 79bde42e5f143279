"""The whole comment: a table of all stacks, then each stack, cut so that GitHub takes it.

What is cut is said, section by section, and no section is cut for the sake of another that is longer than it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from review import sections
from review.markdown import code, prose, shortened
from review.report import Report
from review.sections import Section

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 and does not say how it counts what is not ASCII."""
FEWEST_CHARACTERS = 8_000
"""Less has no place for the headings of all stacks."""
_LONGEST_TITLE = 200
_LONGEST_NOTE = 80


@dataclass(frozen=True)
class _Part:
    """A section with the heading of its stack before it, where it is the stack's first."""

    before: str
    section: Section

    @property
    def fixed(self) -> int:
        """Characters that it takes whatever is cut."""
        return len(self.before) + len(_heading(self.section)) + _LONGEST_NOTE

    @property
    def wanted(self) -> int:
        """Characters of all of its items."""
        return sum(len(item) + 1 for item in self.section.items)


def marker(name: str) -> str:
    """The line by which a comment is found again; Markdown does not show it."""
    return f"<!-- triton-eks: {name} -->"


def render(reports: Sequence[Report], *, title: str, name: str, limit: int = MOST_CHARACTERS) -> str:
    """The comment about `reports`, of at most `limit` characters. `name` is that of its `marker`.

    Raises ValueError with a `limit` below `FEWEST_CHARACTERS`.
    """
    if limit < FEWEST_CHARACTERS:
        raise ValueError(f"a limit of {limit} characters; at least {FEWEST_CHARACTERS}")
    top = [marker(name), f"## {prose(shortened(title, _LONGEST_TITLE))}", ""]
    if reports:
        top += [_compared(reports), sections.SUMMARY_HEAD, *(sections.summary_row(report) for report in reports)]
    else:
        top.append("No stack was previewed.")
    beginning = "\n".join(top) + "\n"
    parts = [part for report in reports for part in _parts(report)]
    room = limit - len(beginning)
    kept = _kept(parts, room)
    left = len(parts) - len(kept)
    text = beginning + "".join(_text(part, allowed) for part, allowed in zip(kept, _shares(kept, room), strict=True))
    return text if not left else text + f"\n… and {left} more sections.\n"


def _compared(reports: Sequence[Report]) -> str:
    bases = sorted({report.base for report in reports if report.base is not None})
    return f"Compared with {', '.join(code(shortened(base, 60)) for base in bases)}.\n" if bases else ""


def _parts(report: Report) -> list[_Part]:
    stack = f"\n### {code(shortened(report.stack, 60))}\n"
    found = sections.of(report)
    if not report.plan.steps and not report.plan.errors:
        stack += "\nNo resource changes.\n"
    if not found:
        return [_Part(stack, Section("", (), ""))]
    return [_Part(stack if position == 0 else "", section) for position, section in enumerate(found)]


def _heading(section: Section) -> str:
    if not section.title:
        return ""
    head = f"{section.head}\n" if section.head else ""
    return f"\n#### {section.title}\n\n{head}"


def _kept(parts: Sequence[_Part], room: int) -> list[_Part]:
    """The parts whose headings there is room for: all of them, but for reports without any measure."""
    kept: list[_Part] = []
    used = _LONGEST_NOTE
    for part in parts:
        used += part.fixed
        if used > room:
            break
        kept.append(part)
    return kept


def _shares(parts: Sequence[_Part], room: int) -> list[int]:
    """How many characters each part's items may have: all that they want, or an equal share of what the others leave."""
    left = room - _LONGEST_NOTE - sum(part.fixed for part in parts)
    shares = [0] * len(parts)
    by_size = sorted(range(len(parts)), key=lambda position: parts[position].wanted)
    for done, position in enumerate(by_size):
        shares[position] = min(parts[position].wanted, left // (len(parts) - done))
        left -= shares[position]
    return shares


def _text(part: _Part, allowed: int) -> str:
    shown: list[str] = []
    for item in part.section.items:
        allowed -= len(item) + 1
        if allowed < 0:
            break
        shown.append(item)
    left = len(part.section.items) - len(shown)
    lines = "".join(f"{item}\n" for item in shown)
    note = f"\n… and {left} more {part.section.noun}, left out for want of space.\n" if left else ""
    return f"{part.before}{_heading(part.section)}{lines}{note}"
