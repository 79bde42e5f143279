"""GitHub's Markdown from text of any origin: names, values and messages of a pull request are not to be trusted."""

from __future__ import annotations

import re

LONGEST_MESSAGE = 1200
"""Characters of one message of the engine or of a policy."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~@&$])")
_WHITE = re.compile(r"\s+")


def code(text: str) -> str:
    """A code span: nothing in it is markup, a mention or a link. On one line, and safe in a table's cell."""
    line = _WHITE.sub(" ", text).strip().replace("|", "\\|")
    if not line:
        return "``(empty)``"
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def prose(text: str) -> str:
    """Text on one line in which nothing is markup, and nobody is mentioned."""
    line = shortened(_WHITE.sub(" ", text).strip())
    return re.sub(r"(https?):", r"\1&#58;", _SPECIAL.sub(r"\\\1", line)).replace("\\@", "@&#8203;")


def block(text: str) -> str:
    """Lines as they are, in a fence that the text cannot end; a long text loses its middle."""
    body = text.strip()
    if len(body) > LONGEST_MESSAGE:  # what ends a traceback is what matters of it
        beginning, end = body[: LONGEST_MESSAGE // 4], body[-LONGEST_MESSAGE // 2 :]
        body = f"{beginning}\n… ({len(body) - len(beginning) - len(end)} characters left out) …\n{end}"
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def shortened(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, or its beginning and how much of it is left out."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text)} characters)"
    return text[: limit - len(note)] + note
