"""Error budgets: how fast they burn, and the alerts about that (multi-window, multi-burn-rate)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec.prometheus.rule import Rule, Severity, alert, series

FEWEST_EVENTS = 10
"""Bad requests in the longer window below which no budget is said to burn: at low rates a single one is a large share."""
WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
INTERVAL_SECONDS = 60
"""How often the rates are recorded: the sum of a rate over a window, times this, is a number of requests."""


@dataclass(frozen=True)
class BurnRate:
    """Budget burns `factor` times as fast as the SLO allows, over `long`, and still does, over `short`."""

    factor: float
    long: str
    short: str


FAST = (BurnRate(14.4, "1h", "5m"), BurnRate(6, "6h", "30m"))
"""2 % of a month's budget in an hour, or 5 % in six."""
SLOW = (BurnRate(3, "1d", "2h"), BurnRate(1, "3d", "6h"))
"""10 % of a month's budget in a day, or in three."""


def burns(
    name: str,
    models: Sequence[str],
    ratio: str,
    bad: str,
    budget: float,
    *,
    summary: str,
    description: str,
    diagnosed: Sequence[str] = (),
) -> list[Rule]:
    """Return one alert that wakes somebody and one that does not; a budget that burns fast raises both.

    `diagnosed`: the models for which another alert wakes somebody; of these, a budget that burns fast only warns. None
    without models.
    """
    fast = _any_of(models, ratio, bad, budget, FAST)
    slow = [*_any_of([*models, *diagnosed], ratio, bad, budget, SLOW), *_any_of(diagnosed, ratio, bad, budget, FAST)]
    levels: tuple[tuple[Severity, Sequence[str], list[str], str, str], ...] = (
        ("critical", models, fast, "2m", "At this pace the error budget of a month is gone within five days."),
        ("warning", [*models, *diagnosed], slow, "15m", "At this pace the error budget of a month does not last."),
    )
    return [
        alert(
            name,
            "\nor\n".join(expressions),
            lasting=lasting,
            severity=severity,
            labels={"model": own[0]} if len(own) == 1 else None,  # several have it from their series
            summary=summary,
            description=f"{description} {pace}",
        )
        for severity, own, expressions, lasting, pace in levels
        if expressions
    ]


def _any_of(models: Sequence[str], ratio: str, bad: str, budget: float, rates: Sequence[BurnRate]) -> list[str]:
    return [_burn(models, ratio, bad, budget, rate) for rate in rates] if models else []


def _burn(models: Sequence[str], ratio: str, bad: str, budget: float, rate: BurnRate) -> str:
    limit = f"{rate.factor * budget:.4g}"
    # A sum, because a mean over a window that is not full yet would count what has not happened.
    events = f"sum_over_time({series(bad, model=models)}[{rate.long}]) * {INTERVAL_SECONDS} >= {FEWEST_EVENTS}"
    long, short = (series(ratio + window, model=models) for window in (rate.long, rate.short))
    return f"({long} > {limit}\n  and {short} > {limit}\n  and {events})"


def share(part: str, whole: str, window: str) -> str:
    """Return the share of a window's requests, from rates that are recorded over 5 minutes."""
    if window == "5m":
        return f"{part} / ({whole} > 0)"
    # Sums of rates over the same moments, not the mean of their ratios: a quiet hour weighs what it carried.
    return f"sum_over_time({part}[{window}]) / (sum_over_time({whole}[{window}]) > 0)"
