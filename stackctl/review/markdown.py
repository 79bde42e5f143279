"""Write GitHub's Markdown from untrusted text: names, values and messages of a pull request."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_MESSAGE = 1200
"""Longest message of the engine or of a policy, in characters."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~@&$])")
_WHITE = re.compile(r"\s+")
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are replaced: control characters, formats, surrogates, line ends.

A format character can turn the direction of a line and hide its content.
"""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Invisible letters and marks, which make two names look alike: https://www.unicode.org/reports/tr36/."""
_ON_LETTERS = frozenset({"Mn", "Me"})
_MOST_MARKS = 4
"""Accents on one letter. More of them would cover the lines around it."""
_BREAKS_LINKS = "&#8203;"
"""A space without width. A backslash does not stop GitHub from mentioning users or linking issues."""
_LINK = re.compile(r"(:)(?=//)|(?<=www)(\.)", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\b(?:GH|GHSA|CVE)-(?=\w)|(?<![0-9A-Za-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4}(?=[0-9a-f]{3,36}(?![0-9A-Za-z]))",
    re.IGNORECASE,
)
"""Beginnings of text that GitHub links, besides `#12`: issues, advisories, commits.

https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
"""
_BLOCK = re.compile(r"^([0-9]{1,9}(?=[.)](?:\s|$))|(?=[-+](?:\s|$)|[-=]{2}))")
"""The beginning of a list or horizontal rule, at the beginning of a text."""


def code(text: str) -> str:
    """Return a code span on one line, safe in a table cell.

    It has no markup, mentions and links.
    """
    line = _line(text).replace("|", "\\|")
    if not line:
        return "``(empty)``"
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def prose(text: str) -> str:
    """Return the text on one line, without markup and mentions."""
    line = _SPECIAL.sub(r"\\\1", shortened(_line(text)))
    line = _BLOCK.sub(r"\1\\", line)
    unlinked = _LINK.sub(lambda found: f"&#{ord(found[0])};", line)
    unlinked = _REFERENCE.sub(lambda found: found[0] + _BREAKS_LINKS, unlinked)
    return unlinked.replace("\\@", f"@{_BREAKS_LINKS}").replace("\\#", f"\\#{_BREAKS_LINKS}")


def block(text: str) -> str:
    """Return the lines unchanged in a fence that the text cannot close. A long text loses its middle."""
    body = _visible(text).strip()
    if len(body) > LONGEST_MESSAGE:  # the end of a traceback is its important part
        beginning, end = body[: LONGEST_MESSAGE // 4], body[-LONGEST_MESSAGE // 2 :]
        body = f"{beginning}\n… ({len(body) - len(beginning) - len(end)} characters left out) …\n{end}"
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def shortened(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Return the text, or its beginning and its length."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note


def _line(text: str) -> str:
    return _visible(_WHITE.sub(" ", text).strip())


def _visible(text: str) -> str:
    """Return the text with replacements for control and direction characters.

    It also cannot begin an HTML comment, which would be invisible; the comment's own marker is such a comment.
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
    """A heading and its items, each independent. `noun`: the kind of one item, for the count of omitted items.

    `rank`: its place among the kinds of sections. A reviewer needs a section with a smaller rank more.
    """

    title: str
    items: tuple[str, ...]
    noun: str
    head: str = ""
    rank: int = 0


def short(text: str) -> str:
    """Return a name of any origin, shortened if it is too long."""
    return shortened(text, _LONGEST_NAME)


def all_names(names: Sequence[str]) -> str:
    """Return names as code spans, separated by commas."""
    return ", ".join(code(short(name)) for name in names)


def listed(words: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
