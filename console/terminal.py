"""Where the tables of commands go."""

from __future__ import annotations

import sys

from rich.console import Console

_PLAIN_WIDTH = 200


def terminal() -> Console:
    """Standard output: as wide as the terminal, of a fixed width in a pipe or a file."""
    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, markup=False)
