"""Mistakes in config.pbtxt, each with all its messages.

Each is one replacement in a sample model's config. Most stop a real server; the others cause problems in production
(docs/facts/triton-configuration.md).
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """`old` becomes `new` in `file`; `problems` are the messages, with paths relative to the models directory."""

    name: str
    file: str
    old: str
    new: str
    problems: list[str]
