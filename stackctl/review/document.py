"""Write the whole comment about all stacks, cut to GitHub's limit.

It has verdicts and a table of all stacks, then each stack. The worst stack comes first and is open; the others are
folded. Each section names its cut items, and the longest sections are cut first. If sections or rows must be left out,
the least important ones of all stacks go first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spec.failure import NOT_TRIED, Failure
from stackctl.review import sections
from stackctl.review.markdown import Section, code, prose, shortened
from stackctl.review.report import Report

MOST_CHARACTERS = 60_000
"""GitHub's limit is 65,536; GitHub does not document how it counts characters outside ASCII."""
FEWEST_CHARACTERS = 8_000
"""A smaller limit has no room for a table and a section."""
_LONGEST_TITLE = 200
_LONGEST_NOTE = 80
"""Characters of one sentence about omitted parts."""
_LEAST_SHOWN = 1300
"""Minimum characters of a section's items; with less room, another section is left out.

A whole message of the engine fits.
"""
_MOST_BASES = 5
_NAME = re.compile(r"[A-Za-z0-9-]{1,60}")
_NOT_SHOWN = "left out for want of space"
_WHERE = "`python3 -m stackctl review render REPORT` gives one stack all of the space."


@dataclass(frozen=True)
class _Stack:
    """A report and its sections, the most important first. `folded`: visible only after a click."""

    report: Report
    sections: tuple[Section, ...]
    folded: bool = False

    @classmethod
    def of(cls, report: Report) -> _Stack:
        return cls(report, tuple(sections.of(report)) or (Section("", (), "", rank=sections.LAST),))

    @property
    def top(self) -> tuple[str, str]:
        """Return its verdict and its row in the table."""
        return sections.verdict(self.report), sections.summary_row(self.report)

    @property
    def importance(self) -> int:
        """Return its rank. A reviewer needs a stack with a smaller rank more."""
        return self.sections[0].rank

    @property
    def heading(self) -> str:
        name = f"\n### {code(shortened(self.report.stack, 60))}\n"
        idle = not self.report.plan.steps and not self.report.plan.errors
        text = f"{name}\nNo resource changes.\n" if idle else name
        return f"{text}\n<details><summary>Details</summary>\n" if self.folded else text

    @property
    def end(self) -> str:
        return "\n</details>\n" if self.folded else ""

    @property
    def fixed(self) -> int:
        """Return the number of characters besides its sections."""
        return len(self.heading) + len(_without(self.sections)) + len(self.end)


class WrongName(Failure):
    """A comment name that the marker cannot hold."""

    exit_code = NOT_TRIED


def marker(name: str) -> str:
    """Return the line that identifies a comment; Markdown does not show it. Raises WrongName."""
    if not _NAME.fullmatch(name):
        raise WrongName(f"{name!r} is no name of a comment; use letters, digits and hyphens")
    return f"<!-- triton-eks: {name} -->"


def render(reports: Sequence[Report], *, title: str, name: str, limit: int = MOST_CHARACTERS) -> str:
    """Return the comment about `reports`, of at most `limit` characters.

    `name` is the name in its `marker`. Raises ValueError with a `limit` below `FEWEST_CHARACTERS`.
    """
    if limit < FEWEST_CHARACTERS:
        raise ValueError(f"a limit of {limit} characters; at least {FEWEST_CHARACTERS}")
    top = [marker(name), f"## {prose(shortened(title, _LONGEST_TITLE))}", ""]
    worst_first = sorted(map(_Stack.of, reports), key=lambda stack: stack.importance)
    stacks = _in_table([replace(stack, folded=position > 0) for position, stack in enumerate(worst_first)], limit // 2)
    if reports:
        verdicts, rows = zip(*(stack.top for stack in stacks), strict=True) if stacks else ((), ())
        top += [*verdicts, "", _compared(reports), sections.SUMMARY_HEAD, *rows]
    else:
        top.append("No stack was previewed.")
    beginning = "\n".join(top) + "\n"
    room = limit - len(beginning) - 2 * _LONGEST_NOTE - len(_WHERE)
    kept = _kept(stacks, room)
    return beginning + _bodies(stacks, kept, room) + _not_told(len(reports) - len(stacks), len(stacks) - len(kept))


def _compared(reports: Sequence[Report]) -> str:
    bases = sorted({report.base for report in reports if report.base is not None})
    more = f" and {len(bases) - _MOST_BASES} more" if len(bases) > _MOST_BASES else ""
    return f"Compared with {', '.join(code(shortened(base, 60)) for base in bases[:_MOST_BASES])}{more}.\n" if bases else ""


def _in_table(stacks: Sequence[_Stack], room: int) -> list[_Stack]:
    """Return the first stacks whose verdicts and rows fit."""
    kept = []
    for stack in stacks:
        room -= sum(len(line) + 1 for line in stack.top)
        if room < 0:
            break
        kept.append(stack)
    return kept


def _heading(section: Section) -> str:
    if not section.title:
        return ""
    head = f"{section.head}\n" if section.head else ""
    return f"\n#### {section.title}\n\n{head}"


def _fixed(section: Section) -> int:
    """Return the number of characters of a section without its items."""
    return len(_heading(section)) + _LONGEST_NOTE


def _wanted(section: Section) -> int:
    """Return the number of characters of all its items."""
    return sum(len(item) + 1 for item in section.items)


def _kept(stacks: Sequence[_Stack], room: int) -> dict[int, list[Section]]:
    """Return the sections that fit, by the stack's position. The most important kinds of sections go first."""
    kept: dict[int, list[Section]] = {}
    all_ = [(position, section) for position, stack in enumerate(stacks) for section in stack.sections]
    for position, section in sorted(all_, key=lambda one: one[1].rank):
        needed = _fixed(section) + min(_wanted(section), _LEAST_SHOWN)
        needed += stacks[position].fixed if position not in kept else 0
        if needed <= room:
            kept.setdefault(position, []).append(section)
            room -= needed
    return kept


def _bodies(stacks: Sequence[_Stack], kept: Mapping[int, Sequence[Section]], room: int) -> str:
    """Return the text of the stacks with a section, cut to the available room."""
    used = sum(stacks[position].fixed + sum(map(_fixed, shown)) for position, shown in kept.items())
    shares = iter(_shares([_wanted(section) for position in sorted(kept) for section in kept[position]], room - used))
    text = ""
    for position in sorted(kept):
        stack, shown = stacks[position], kept[position]
        text += stack.heading + "".join(_text(section, next(shares)) for section in shown)
        text += _without([section for section in stack.sections if section not in shown]) + stack.end
    return text


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return the characters for each part: its size, or an equal share of the rest."""
    shares = [0] * len(wanted)
    by_size = sorted(range(len(wanted)), key=lambda position: wanted[position])
    for done, position in enumerate(by_size):
        shares[position] = min(wanted[position], room // (len(wanted) - done))
        room -= shares[position]
    return shares


def _text(section: Section, allowed: int) -> str:
    shown: list[str] = []
    for item in section.items:
        allowed -= len(item) + 1
        if allowed < 0:
            break
        shown.append(item)
    left = len(section.items) - len(shown)
    lines = "".join(f"{item}\n" for item in shown)
    return f"{_heading(section)}{lines}" + (f"\n… and {left} more {section.noun}, {_NOT_SHOWN}.\n" if left else "")


def _without(left: Sequence[Section]) -> str:
    """Return the sentence that names the omitted sections of one stack."""
    titles = ", ".join(section.title for section in left if section.title)
    return f"\nSections {_NOT_SHOWN}: {titles}.\n" if titles else ""


def _not_told(without_row: int, without_section: int) -> str:
    """Return the note that counts stacks without a row or without a section."""
    notes = []
    if without_section:
        notes.append(f"… and the sections of {_counted(without_section)} of the table, {_NOT_SHOWN}.")
    if without_row:
        notes.append(f"… and {_counted(without_row, 'more ')} that {'is' if without_row == 1 else 'are'} not in the table.")
    return f"\n{' '.join(notes)} {_WHERE}\n" if notes else ""


def _counted(stacks: int, more: str = "") -> str:
    return f"1 {more}stack" if stacks == 1 else f"{stacks} {more}stacks"
