"""GitHub's Markdown from text of any origin: names, values and messages of a pull request are not to be trusted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_MESSAGE = 1200
"""Characters of one message of the engine or of a policy."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~@&$])")
_WHITE = re.compile(r"\s+")
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Of Unicode: control characters, formats (a turned direction hides what a line says), halves of characters, line ends."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Letters and marks that nobody sees, so that two names look alike: https://www.unicode.org/reports/tr36/."""
_ON_LETTERS = frozenset({"Mn", "Me"})
_MOST_MARKS = 4
"""Accents on one letter: more of them grow over the lines around it."""
_BREAKS_LINKS = "&#8203;"
"""A space without width: a backslash alone keeps GitHub neither from mentioning nor from linking to an issue."""
_LINK = re.compile(r"(:)(?=//)|(?<=www)(\.)", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\b(?:GH|GHSA|CVE)-(?=\w)|(?<![0-9A-Za-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4}(?=[0-9a-f]{3,36}(?![0-9A-Za-z]))",
    re.IGNORECASE,
)
"""Beginnings of what GitHub links beside `#12`: issues, advisories, commits
(https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls).
"""
_BLOCK = re.compile(r"^([0-9]{1,9}(?=[.)](?:\s|$))|(?=[-+](?:\s|$)|[-=]{2}))")
"""The beginning of a list, or of a line across the page, at the beginning of a text."""


def code(text: str) -> str:
    """Return a code span: nothing in it is markup, a mention or a link. On one line, and safe in a table's cell."""
    line = _line(text).replace("|", "\\|")
    if not line:
        return "``(empty)``"
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def prose(text: str) -> str:
    """Text on one line in which nothing is markup, and nobody is mentioned."""
    line = _SPECIAL.sub(r"\\\1", shortened(_line(text)))
    line = _BLOCK.sub(r"\1\\", line)
    unlinked = _LINK.sub(lambda found: f"&#{ord(found[0])};", line)
    unlinked = _REFERENCE.sub(lambda found: found[0] + _BREAKS_LINKS, unlinked)
    return unlinked.replace("\\@", f"@{_BREAKS_LINKS}").replace("\\#", f"\\#{_BREAKS_LINKS}")


def block(text: str) -> str:
    """Return lines as they are, in a fence that the text cannot end; a long text loses its middle."""
    body = _visible(text).strip()
    if len(body) > LONGEST_MESSAGE:  # what ends a traceback is what matters of it
        beginning, end = body[: LONGEST_MESSAGE // 4], body[-LONGEST_MESSAGE // 2 :]
        body = f"{beginning}\n… ({len(body) - len(beginning) - len(end)} characters left out) …\n{end}"
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def shortened(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Return the text, or its beginning and how much of it is left out."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note


def _line(text: str) -> str:
    return _visible(_WHITE.sub(" ", text).strip())


def _visible(text: str) -> str:
    """Return the text without what cannot be seen or written: control characters, and those that turn a line's direction.

    Nor does it begin a comment of HTML, which nobody would see: as such the comment's own marker is written.
    """
    seen, marks = [], 0
    for one in text:
        category = unicodedata.category(one)
        marks = marks + 1 if category in _ON_LETTERS else 0
        hidden = (category in _NOT_SHOWN and one not in "\n\t") or one in _BLANK or marks > _MOST_MARKS
        seen.append("\N{REPLACEMENT CHARACTER}" if hidden else one)
    return "".join(seen).replace("<!--", "<!\N{ZERO WIDTH SPACE}--")


_LONGEST_NAME = 160


@dataclass(frozen=True)
class Section:
    """A heading and its items, each of which stands for itself. `noun`: what one item is, for what is left out.

    `rank`: its place among the kinds of sections; the smaller, the less a reviewer can do without it.
    """

    title: str
    items: tuple[str, ...]
    noun: str
    head: str = ""
    rank: int = 0


def short(text: str) -> str:
    """Return a name of any origin, cut where it is too long."""
    return shortened(text, _LONGEST_NAME)


def all_names(names: Sequence[str]) -> str:
    """Return names as code, with commas."""
    return ", ".join(code(short(name)) for name in names)


def listed(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
