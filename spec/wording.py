"""Words of sentences about mistakes: choices, and what was meant. Imports nothing heavy: tools use it too."""

import difflib
from collections.abc import Iterable, Sequence


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with escapes for what a terminal obeys or cannot show: `\\n`, `\\x1b`, `\\udcff`; not for `keep`."""
    return "".join(sign if sign.isprintable() or sign in keep else repr(sign)[1:-1] for sign in text)


def one_of(choices: Iterable[object]) -> str:
    """`a, b or c`."""
    words = [str(choice) for choice in choices]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def listed(source: str, noun: str, lines: Sequence[str]) -> str:
    """`source: 2 mistakes` and each of them below it, as one message for the engine.

    The engine's display shows the first line of a message as it comes, and again with the whole message.
    """
    count = f"1 {noun}" if len(lines) == 1 else f"{len(lines)} {noun}s"
    return "\n  ".join([f"{source}: {count}", *lines])


def nearest(wrong: object, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant; None where none is near."""
    near = difflib.get_close_matches(str(wrong), list(choices), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(wrong: object, choices: Iterable[str]) -> str:
    """`did you mean 'x'? ` when one of the choices is near, else nothing: the start of a sentence about choices."""
    near = nearest(wrong, choices)
    return f"did you mean '{near}'? " if near else ""
