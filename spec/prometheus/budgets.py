"""Error budgets: burn rates and their alerts (multi-window, multi-burn-rate)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec.prometheus.rule import Rule, Severity, alert, series

FEWEST_EVENTS = 10
"""The minimum of bad requests in the longer window for an alert. At low rates, a single request is a large share."""
WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
INTERVAL_SECONDS = 60
"""The recording interval of the rates. The sum of a rate over a window, times the interval, is the number of requests."""


@dataclass(frozen=True)
class BurnRate:
    """A burn rate: the budget burns `factor` times as fast as the SLO allows over `long`, and still does over `short`."""

    factor: float
    long: str
    short: str


FAST = (BurnRate(14.4, "1h", "5m"), BurnRate(6, "6h", "30m"))
"""2 % of a month's budget in one hour, or 5 % in six."""
SLOW = (BurnRate(3, "1d", "2h"), BurnRate(1, "3d", "6h"))
"""10 % of a month's budget in one day, or in three."""


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
    """Return one alert that pages and one that only warns; a fast burn raises both. Returns none without models.

    `diagnosed` are the models for which another alert pages. For these, a fast burn only warns.
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
            labels={"model": own[0]} if len(own) == 1 else None,  # several models have the label from their series
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
    # Use a sum, because the mean over an incomplete window would extrapolate.
    events = f"sum_over_time({series(bad, model=models)}[{rate.long}]) * {INTERVAL_SECONDS} >= {FEWEST_EVENTS}"
    long, short = (series(ratio + window, model=models) for window in (rate.long, rate.short))
    return f"({long} > {limit}\n  and {short} > {limit}\n  and {events})"


def share(part: str, whole: str, window: str) -> str:
    """Return the share of a window's requests, from rates recorded over 5 minutes."""
    if window == "5m":
        return f"{part} / ({whole} > 0)"
    # Sum the rates over the same times instead of averaging their ratios, so each hour weighs by its traffic.
    return f"sum_over_time({part}[{window}]) / (sum_over_time({whole}[{window}]) > 0)"
