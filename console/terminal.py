"""Write to the terminal: tables, JSON and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 200


def output(*, soft_wrap: bool = False) -> Console:
    """Return standard output, as wide as the terminal. In a pipe or a file, the width is fixed.

    With `soft_wrap` long lines are not broken.
    """
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(width=width, highlight=False, markup=False, soft_wrap=soft_wrap)


def progress(*, soft_wrap: bool = False) -> Console:
    """Return standard error, for progress and remarks."""
    return Console(stderr=True, highlight=False, soft_wrap=soft_wrap)


def table(*columns: str, right: Collection[str] = (), fold: bool = False) -> Table:
    """Return a table without lines. Columns in `right` are right-aligned; `fold` breaks long values."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        made.add_column(column, justify=justify, no_wrap=not fold, overflow="fold")
    return made


def print_json(value: Any) -> None:
    """Print `value` on standard output as one JSON document."""
    print(json.dumps(value, indent=2))
