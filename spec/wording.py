"""Wording of error messages: choices and suggestions. It has no heavy imports, because tools use it too."""

import difflib
from collections.abc import Iterable, Sequence


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with escapes for terminal control and unprintable characters: `\\n`, `\\x1b`, `\\udcff`; not for
    `keep`."""
    return "".join(sign if sign.isprintable() or sign in keep else repr(sign)[1:-1] for sign in text)


def one_of(choices: Iterable[object]) -> str:
    """Return the choices as `a, b or c`."""
    words = [str(choice) for choice in choices]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def listed(source: str, noun: str, lines: Sequence[str]) -> str:
    """Return `source: 2 mistakes` and each of them on its own line, as one message for the engine.

    The engine's display shows the first line immediately, and again with the whole message.
    """
    count = f"1 {noun}" if len(lines) == 1 else f"{len(lines)} {noun}s"
    return "\n  ".join([f"{source}: {count}", *lines])


def nearest(wrong: object, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant; None if no choice is similar."""
    near = difflib.get_close_matches(str(wrong), list(choices), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(wrong: object, choices: Iterable[str]) -> str:
    """Return `did you mean 'x'? ` if a choice is similar, else an empty text. A sentence about choices begins with it."""
    near = nearest(wrong, choices)
    return f"did you mean '{near}'? " if near else ""
