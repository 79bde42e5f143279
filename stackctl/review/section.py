"""A part of the comment, and how names stand in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stackctl.review.markdown import code, shortened

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
