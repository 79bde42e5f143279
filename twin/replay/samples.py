"""Six traces by formula, sized to a stack, mostly from a quarter of its peak (`peakRate`) to twice the peak."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from twin.replay.traces import Outage, Rates, SlowPod, Trace

_HOUR = 3600
_SEED = 17
_BURSTS_A_DAY = 12
_AWAY = "prometheus-away"


def _steps() -> Rates:
    """Return five steps of ten minutes up to the peak, and down again."""
    levels = [0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 0.85, 0.7, 0.55, 0.4, 0.25]
    return np.repeat(levels, 600)


def _ramp() -> Rates:
    """Return four half hours: up to the peak, at the peak, down, and at a low rate."""
    half = _HOUR // 2
    up = np.linspace(0.1, 1.0, half)
    return np.concatenate([up, np.full(half, 1.0), up[::-1], np.full(half, 0.1)])


def _diurnal() -> Rates:
    """Return a day with its minimum at 4:00 and its maximum at 16:00, and bursts of minutes at random times."""
    seconds = np.arange(24 * _HOUR)
    rates = 0.45 - 0.3 * np.cos(2 * math.pi * (seconds / _HOUR - 4) / 24)
    source = np.random.default_rng(_SEED)
    for begins in source.integers(0, len(seconds), _BURSTS_A_DAY):
        length, height = source.integers(60, 600), source.uniform(0.1, 0.4)
        rates[begins : begins + length] += height
    return rates


def _flash_crowd() -> Rates:
    """Return a third of the peak, then twice the peak, reached within 30 s, for a quarter of an hour."""
    rates = np.full(_HOUR, 1 / 3)
    rates[600:630] = np.linspace(1 / 3, 2.0, 30)
    rates[630:1500] = 2.0
    rates[1500:1800] = np.linspace(2.0, 1 / 3, 300)
    return rates


def _slow_pod() -> Rates:
    """Return half of the peak, while one pod is four times as slow for twenty minutes."""
    return np.full(_HOUR, 0.5)


def _prometheus_away() -> Rates:
    """Return half of the peak, then the peak from ten minutes after the start of a Prometheus outage."""
    return np.repeat([0.5, 1.0], [1200, _HOUR - 1200])


_FORMULAS: Mapping[str, Callable[[], Rates]] = {
    "steps": _steps,
    "ramp": _ramp,
    "diurnal": _diurnal,
    "flash-crowd": _flash_crowd,
    "slow-pod": _slow_pod,
    _AWAY: _prometheus_away,
}
NAMES = tuple(_FORMULAS)
OBSERVED = tuple(name for name in NAMES if name != _AWAY)
"""The traces during which every rule has data."""


def sample(name: str, peaks: Mapping[str, float]) -> Trace:
    """Return the sample of that name for models with these peak rates."""
    shape = _FORMULAS[name]()
    slow = SlowPod(begins=600, ends=1800, factor=4) if name == "slow-pod" else None
    outage = Outage(begins=600, ends=1800) if name == _AWAY else None
    return Trace(name, {model: shape * peak for model, peak in peaks.items()}, slow_pod=slow, outage=outage)
