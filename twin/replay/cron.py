"""KEDA's cron trigger in virtual time.

A port of https://github.com/kedacore/keda/blob/v2.20.2/pkg/scalers/cron_scaler.go (`GetMetricsAndActivity`). The trigger
is active while the next end is not later than the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from spec.settings.autoscaling import moments

_DAYS = 366 * 8
"""Every date occurs within this many days: 2100 has no 29 February."""


class Cron:
    """A cron trigger. The metadata has `start`, `end`, `timezone` and `desiredReplicas`."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._zone = ZoneInfo(metadata["timezone"])
        self._crons = (str(metadata["start"]), str(metadata["end"]))
        self._next: list[float] = [float("-inf"), float("-inf")]
        self._replicas = int(metadata["desiredReplicas"])

    def value(self, timestamp: float) -> int:
        """Return the replicas of the trigger at a moment, in seconds since 1970. Moments must ascend from call to call."""
        for index, cron in enumerate(self._crons):
            if timestamp >= self._next[index]:
                self._next[index] = _next(cron, timestamp, self._zone)
        start, end = self._next
        return 0 if start < end else self._replicas


def _next(cron: str, timestamp: float, zone: ZoneInfo) -> float:
    """Return the next moment of the schedule. As in cron, one match of two restricted kinds of day is enough."""
    minutes, hours, days, months, weekdays = moments(cron)
    either = len(days) < 31 and len(weekdays) < 7
    today = datetime.fromtimestamp(timestamp, zone).date()
    for offset in range(_DAYS):
        day = today + timedelta(days=offset)
        found = (day.day in days, day.isoweekday() % 7 in weekdays)
        if day.month not in months or not (any(found) if either else all(found)):
            continue
        for hour in sorted(hours):
            for minute in sorted(minutes):
                moment = datetime.combine(day, time(hour, minute), zone).timestamp()
                if moment > timestamp:
                    return moment
    raise ValueError(f"'{cron}' never comes")
