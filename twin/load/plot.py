"""A load as a picture: pods, requests and waiting over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from modelctl.tune.plot import svg
from twin.load.record import Moment
from twin.load.scaling import Scale


def plot(moments: Sequence[Moment], title: str) -> str:
    """Return an SVG of three plots with one time axis; the same moments give the same bytes."""
    from matplotlib.figure import Figure  # imported here, because it takes half a second that only a load needs
    from matplotlib.ticker import MaxNLocator

    at = [moment.at for moment in moments]
    figure = Figure(figsize=(9, 7), layout="constrained")
    replicas, rates, latencies = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 2))
    replicas.set_title(title)
    replicas.step(at, of_scale(moments, lambda scale: scale.wanted), where="post", color="0.6", label="wanted")
    replicas.step(at, of_scale(moments, lambda scale: scale.ready), where="post", color="C0", linewidth=2, label="ready")
    ready_nodes = of_scale(moments, lambda scale: math.nan if scale.nodes is None else scale.nodes.ready)
    if not all(map(math.isnan, ready_nodes)):
        replicas.step(at, ready_nodes, where="post", color="C1", linestyle="--", label="ready nodes")
    replicas.set_ylabel("pods")
    replicas.yaxis.set_major_locator(MaxNLocator(integer=True))
    rates.plot(at, [moment.offered for moment in moments], color="0.6", linewidth=1, label="offered")
    rates.plot(at, [moment.answered for moment in moments], color="C2", linewidth=1.5, label="answered")
    rates.set_ylabel("requests/s")
    latencies.plot(at, p95(moments), color="C3", linewidth=1.5, label="p95 of the last 10 s")
    latencies.set_ylabel("ms from the due time")
    latencies.set_xlabel("s")
    for axes in (replicas, rates, latencies):
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small", loc="upper right")
        axes.grid(color="0.9")
    return svg(figure)


def of_scale(moments: Sequence[Moment], number: Callable[[Scale], float]) -> list[float]:
    """Return a number of the scale of each moment; a gap if the cluster did not answer."""
    return [math.nan if moment.scale is None else number(moment.scale) for moment in moments]


def p95(moments: Sequence[Moment]) -> list[float]:
    """Return the percentile of each moment; a gap if there were no responses."""
    return [math.nan if moment.p95_ms is None else moment.p95_ms for moment in moments]
