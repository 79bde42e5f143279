"""A replay as text: a table of the outcome, with a column for before if there is one, and plots of one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.table import Table

from twin.replay.outcome import Outcome

_BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "unknown"
SERVERS_ARE_A_MODEL = "The servers are a model: docs/replay.md says what it leaves out."

_ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("requests that missed the SLO", lambda outcome: f"{outcome.missed_share:.2%}"),
    ("  of them rejected, or without a pod", lambda outcome: f"{outcome.rejected:,.0f}"),
    ("GPU-hours", lambda outcome: f"{outcome.gpu_hours:,.1f}"),
    ("node-hours", lambda outcome: f"{outcome.node_hours:,.1f}"),
    ("US$ of these nodes", lambda outcome: UNKNOWN if outcome.usd is None else f"{outcome.usd:,.2f}"),
    ("most pods", lambda outcome: f"{outcome.most_pods}"),
    ("changes of direction", lambda outcome: f"{outcome.turns}"),
    ("times without capacity for what came", lambda outcome: f"{len(outcome.shortages)}"),
    ("  the longest until there was", lambda outcome: f"{outcome.longest_shortage} s"),
)


def table(title: str, now: Outcome, before: Outcome | None) -> Table:
    """Return the table of a fleet's outcome."""
    made = Table(title, *(["before", "after"] if before is not None else [""]), title_justify="left")
    for column in made.columns[1:]:
        column.justify = "right"
    for name, text in _ROWS:
        made.add_row(name, *([text(before)] if before is not None else []), text(now))
    return made


def plot(outcome: Outcome) -> Iterator[str]:
    """Yield a line each for requests, pods and misses over the trace, each scaled from 0 to its maximum."""
    moments = outcome.moments
    yield _line("requests/s", [moment.rate for moment in moments], "{:,.0f}")
    yield _line("pods wanted", [moment.wanted for moment in moments], "{:,.0f}")
    yield _line("pods ready", [moment.ready for moment in moments], "{:,.0f}")
    yield _line("missed SLO", [100 * moment.missed for moment in moments], "{:,.1f} %")


def _line(name: str, values: Sequence[float], form: str) -> str:
    most = max(values, default=0.0)
    blocks = "".join(_BLOCKS[round((len(_BLOCKS) - 1) * value / most)] if most else _BLOCKS[0] for value in values)
    return f"{name:<12} {blocks} up to {form.format(most)}"
