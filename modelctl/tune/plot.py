"""Plot throughput against p95 for every load of a tuning run."""

from __future__ import annotations

import io
from collections import defaultdict
from typing import TYPE_CHECKING

from modelctl.tune.evidence import Evidence, LoadRecord, Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 5
"""Number of configurations with a colour and a name; the others are grey."""


def plot(evidence: Evidence) -> str:
    """Return an SVG; the same evidence gives the same bytes."""
    from matplotlib.figure import Figure  # imported here, because it takes half a second

    loads: dict[tuple[int, int, int], list[LoadRecord]] = defaultdict(list)
    best: dict[tuple[int, int, int], float] = defaultdict(float)
    for trial in evidence.trials:
        key = _key(trial.values)
        loads[key] += [load for load in trial.loads if load.p95_ms is not None]
        best[key] = max(best[key], trial.rate)
    first = [_key(evidence.winner.values), _key(evidence.trials[0].values)]
    named = list(dict.fromkeys([*first, *sorted(best, key=lambda key: -best[key])]))[:_NAMED]

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for key in [key for key in loads if key not in named]:
        axes.plot(*_points(loads[key]), "o", color="0.8", markersize=3)
    for key in named:
        label = "batch {}, delay {} µs, instances {}".format(*key) + (" (chosen)" if key == first[0] else "")
        axes.plot(*_points(loads[key]), "o-", markersize=4, linewidth=2.5 if key == first[0] else 1, label=label)
    axes.axhline(evidence.slo_p95_ms, color="black", linestyle="--", linewidth=1, label=f"SLO {evidence.slo_p95_ms:g} ms")
    axes.set_xlabel("throughput, requests/s")
    axes.set_ylabel("p95 from the scheduled time, ms")
    axes.set_ylim(0, evidence.slo_p95_ms * 2)
    axes.set_xlim(left=0)
    axes.set_title(f"{evidence.model}: each point is a load of Poisson arrivals")
    axes.legend(fontsize="small")
    return svg(figure)


def svg(figure: Figure) -> str:
    """Return the figure as text, without a date or random ids."""
    import matplotlib as mpl

    written = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "modelctl"}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _key(values: Values) -> tuple[int, int, int]:
    return values.maxBatchSize, values.maxQueueDelayUs, values.instances


def _points(loads: list[LoadRecord]) -> tuple[list[float], list[float]]:
    ordered = sorted(loads, key=lambda load: load.throughput)
    return [load.throughput for load in ordered], [load.p95_ms for load in ordered if load.p95_ms is not None]
