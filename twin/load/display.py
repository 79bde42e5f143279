"""A load in the terminal, with one row per second; plain lines if standard output is not a terminal."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from twin.load.counts import Counts
from twin.load.record import Moment
from twin.load.scaling import Scale

_ROWS = 20
_LINE_SECONDS = 5.0
"""Between two plain lines while the number of pods does not change."""
_UNKNOWN = "?"
_NONE = "-"
_WIDTHS = (5, 9, 10, 6, 6, 6, 6, 5, 8, 5, 5, 0)


class Display(Protocol):
    """The display of a load."""

    def say(self, text: str) -> None:
        """Show a sentence, which stays."""

    def show(self, moment: Moment) -> None:
        """Show the figures of this second."""


@contextlib.contextmanager
def display(console: Console) -> Iterator[Display]:
    """Yield a moving table on a terminal, else plain lines; the last output stays."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield _LiveTable(live)


def header() -> tuple[str, ...]:
    """Return the headings of a row's cells."""
    counted = ("time", "offered/s", "answered/s", "failed", "p95 ms", "queued")
    return (*counted, "wanted", "ready", "starting", "pods", "nodes", "signal")


def row(moment: Moment) -> tuple[str, ...]:
    """Return the cells of one second. `?`: the cluster did not answer; `-`: there is no such number."""
    minutes, seconds = divmod(round(moment.at), 60)
    scale = moment.scale
    counted = (
        f"{minutes}:{seconds:02}",
        f"{moment.offered:.0f}",
        f"{moment.answered:.0f}",
        str(moment.failed),
        _NONE if moment.p95_ms is None else f"{moment.p95_ms:.0f}",
        _NONE if moment.waiting is None else str(moment.waiting),
    )
    if scale is None:
        return (*counted, *[_UNKNOWN] * (len(header()) - len(counted)))
    nodes = _NONE if scale.nodes is None else signs(scale.nodes)
    return (*counted, str(scale.wanted), str(scale.ready), str(scale.starting), signs(scale), nodes, _signal(scale))


def signs(counted: Scale | Counts) -> str:
    """Return pods or nodes as signs: ready, starting, and ending."""
    return "■" * counted.ready + "□" * counted.starting + "x" * counted.ending


def _signal(scale: Scale) -> str:
    signal = scale.signal
    return _NONE if signal is None else f"{signal.name} {signal.value:.3g} of {signal.target:.3g}"


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed: Moment | None = None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def show(self, moment: Moment) -> None:
        if self._printed is None:
            self._console.print(_aligned(header()), markup=False)
        elif not _news(self._printed, moment):
            return
        self._printed = moment
        self._console.print(_aligned(row(moment)), markup=False)


class _LiveTable:
    def __init__(self, live: Live) -> None:
        self._live = live
        self._rows: deque[tuple[str, ...]] = deque(maxlen=_ROWS)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False)

    def show(self, moment: Moment) -> None:
        self._rows.append(row(moment))
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in header():
            table.add_column(name, justify="left" if name in ("pods", "nodes", "signal") else "right")
        for cells in self._rows:
            table.add_row(*cells)
        self._live.update(table, refresh=True)


def _news(before: Moment, now: Moment) -> bool:
    def counts(moment: Moment) -> tuple[object, ...]:
        scale = moment.scale
        return (moment.failed, scale and (scale.wanted, scale.ready, scale.starting, scale.ending, scale.nodes))

    return now.at - before.at >= _LINE_SECONDS or counts(before) != counts(now)


def _aligned(cells: tuple[str, ...]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()
