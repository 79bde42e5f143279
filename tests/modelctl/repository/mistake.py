"""Mistakes in config.pbtxt, each with every message that it must give.

Each is one replacement in a config of the sample models. Most of them stop a real server; the others it accepts, and
production pays (docs/facts/triton-configuration.md).
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """`old` becomes `new` in `file`; `problems` are the messages, their paths relative to the models directory."""

    name: str
    file: str
    old: str
    new: str
    problems: list[str]
