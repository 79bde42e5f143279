"""The limits between which the number of Triton pods follows the load: `triton-eks:autoscaling`."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from typing import Annotated, Any, ClassVar
from zoneinfo import available_timezones

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import url
from spec.settings.fields import ModelName
from spec.settings.kind import Kind, between, fraction_between, refuse, text_of
from spec.settings.rule import Place, rule
from spec.settings.section import Section
from spec.wording import did_you_mean

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 6, _WEEKDAYS),
)
"""Name, minimum, maximum and value names of each field, as KEDA's cron parser (robfig/cron) defines them."""
_CRON_PART = re.compile(r"(?:\*|\?|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[1-9]\d*))?", re.ASCII)
_LEAST_BUSY, _MOST_BUSY = 0.05, 512.0
_LEAST_RATE, _MOST_RATE = 0.001, 1_000_000.0

Pods = Annotated[int, between(1, 1000, "pods")]


def _cron(value: Any) -> str:
    """Refuse an expression that KEDA cannot read, because it would also stop the other triggers from scaling."""
    valid = 'give minute, hour, day, month and weekday in quotes, like "0 7 * * 1-5"'
    fields = text_of(value, valid).split()
    if len(fields) != len(_CRON_FIELDS):
        refuse(f"'{value}' is not a cron expression of five fields; {valid}")
    for text, (name, least, most, names) in zip(fields, _CRON_FIELDS, strict=True):
        if not all(_is_cron_part(part, least, most, names) for part in text.split(",")):
            also = f" or {names[0]} to {names[-1]}" if names else ""
            refuse(f"'{text}' is no value for the {name}; use {least} to {most}{also}, like *, 1, 1-5, 1,3 or */2")
    return str(value)


def _is_cron_part(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    match = _CRON_PART.fullmatch(part.lower())
    if match is None:
        return False
    bounds = [text for text in (match["first"], match["last"]) if text is not None]
    numbers = [names.index(text) + least if text in names else int(text) if text.isdigit() else -1 for text in bounds]
    return all(least <= number <= most for number in numbers) and numbers == sorted(numbers)


_A_LEAP_YEAR = date(2028, 1, 1)
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def moments(cron: str) -> tuple[frozenset[int], ...]:
    """Return the values of each field of a valid cron expression. Equal times give equal results, however they are
    written."""
    return tuple(
        frozenset(value for part in text.split(",") for value in _values(part, least, most, names))
        for text, (_, least, most, names) in zip(cron.split(), _CRON_FIELDS, strict=True)
    )


def _values(part: str, least: int, most: int, names: tuple[str, ...]) -> range:
    match = _CRON_PART.fullmatch(part.lower())
    assert match is not None, part
    first, last = (
        names.index(text) + least if text in names else int(text) if text is not None else None
        for text in (match["first"], match["last"])
    )
    if last is None:  # `3/5` begins at 3 and ends at the field's maximum
        last = most if first is None or match["step"] else first
    return range(least if first is None else first, last + 1, int(match["step"] or 1))


def _comes(cron: str) -> bool:
    """Return whether one of the months has one of the days. An expression with weekdays always matches some day."""
    _, _, days, months, weekdays = moments(cron)
    return len(weekdays) < 7 or any(day <= _DAYS_OF_MONTHS[month - 1] for day in days for month in months)


def _times(cron: str) -> list[int]:
    """Return the minutes of the day at which the expression matches."""
    minutes, hours, *_ = moments(cron)
    return sorted(60 * hour + minute for hour in hours for minute in minutes)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _days_apart(cron: str) -> bool:
    """Return whether the expression never matches on two consecutive days."""
    _, _, days, _, weekdays = moments(cron)
    if len(weekdays) < 7:
        return len(days) == 31 and not any((day + 1) % 7 in weekdays for day in weekdays)
    return not any(day % 31 + 1 in days for day in days)


def _timezone(value: Any) -> str:
    valid = "give a name of the IANA time zone database, like Europe/Zurich"
    name = text_of(value, valid)
    known = available_timezones()  # empty on a machine without that database
    if known and name not in known:
        refuse(f"'{name}' is not a time zone; {did_you_mean(name, known)}{valid}")
    return name


_Cron = Annotated[str, Kind(_cron, 'minute, hour, day, month and weekday in quotes, like "0 7 * * 1-5"', {"type": "string"})]
_Timezone = Annotated[str, Kind(_timezone, "a name of the IANA time zone database, like Europe/Zurich", {"type": "string"})]
_PrometheusUrl = Annotated[
    str,
    url(
        "the address of a Prometheus",
        "give one like http://prometheus.observability.svc:9090",
        path=True,
    ),
]


class CronFloor(Section):
    """A higher minimum of pods between two recurring times, given as cron expressions in a time zone."""

    start: _Cron = Field(description='when it begins, as a cron expression in quotes, like "0 7 * * 1-5"')
    end: _Cron = Field(description='when it ends, as a cron expression in quotes, like "0 19 * * 1-5"')
    timezone: _Timezone = Field(description="the time zone of both, like Europe/Zurich")
    replicas: Pods = Field(description="the fewest pods in that time")

    @rule
    def _it_ends(self, at: Place) -> Iterator[Problem]:
        """Require an end that differs from the start, and dates that exist."""
        for key, cron in (("start", self.start), ("end", self.end)):
            if not _comes(cron):
                yield at.problem(key, f"'{cron}' never comes: no month of it has that day; give a day that there is")
        if moments(self.start) == moments(self.end):
            yield at.problem("end", f"it begins and ends at '{self.start}'; give another end")
        elif moments(self.start)[2:] == moments(self.end)[2:]:
            yield from self._it_ends_on_its_day(at)
        elif _comes(self.start) and _comes(self.end):
            yield from self._they_take_turns(at)

    def _it_ends_on_its_day(self, at: Place) -> Iterator[Problem]:
        """Refuse an end before the start, and two starts or ends in a row, if both are on the same days."""
        starts, ends = _times(self.start), _times(self.end)
        if max(ends) < min(starts) and _days_apart(self.start):
            yield at.problem(
                "end",
                f"'{self.end}' comes before '{self.start}' on each of its days, so that it would hold until the next one; "
                "give a later time of the day, or the days after for a night",
            )
            return
        for key, times, others in (("start", starts, ends), ("end", ends, starts)):
            for first, second in pairwise(times):
                if not any(first < other < second for other in others):
                    does = "begins" if key == "start" else "ends"
                    yield at.problem(
                        key,
                        f"'{getattr(self, key)}' {does} twice, at {_clock(first)} and {_clock(second)}, with no "
                        f"{'end' if key == 'start' else 'start'} between; leave one of them out",
                    )
                    break

    def _they_take_turns(self, at: Place) -> Iterator[Problem]:
        """Refuse two starts or two ends in a row, if both are on different days.

        KEDA computes which of the two comes next, and applies the higher minimum if it is an end
        (https://github.com/kedacore/keda/blob/v2.20.2/pkg/scalers/cron_scaler.go).
        """
        for (first, before), (second, key) in pairwise(_turns(self.start, self.end)):
            if before == key:
                does, other, holds = ("begins", "end", "would not") if key == "start" else ("ends", "start", "would")
                yield at.problem(
                    key,
                    f"'{getattr(self, key)}' {does} twice, at {first} and {second} for example, with no {other} "
                    f"between, and KEDA {holds} hold the pods from one to the other; let it come on the days of the {other} "
                    "alone, or on the days after",
                )
                return


def _turns(start: str, end: str) -> Iterator[tuple[str, str]]:
    """Yield the times of both expressions in a year and a month, in order: `Mon 2028-01-03 07:00`, and `start` or `end`."""
    both = [(key, moments(cron), _times(cron)) for key, cron in (("start", start), ("end", end))]
    for offset in range(366 + 31):
        day = _A_LEAP_YEAR + timedelta(days=offset)
        today = [(minute, key) for key, found, minutes in both if _is_on(found, day) for minute in minutes]
        for minute, key in sorted(today):
            yield f"{day:%a %Y-%m-%d} {_clock(minute)}", key


def _is_on(found: tuple[frozenset[int], ...], day: date) -> bool:
    """Return whether the expression matches on a day. As in cron, a match of the month day or the weekday is enough."""
    _, _, days, months, weekdays = found
    kinds = (day.day in days, day.isoweekday() % 7 in weekdays)
    either = len(days) < 31 and len(weekdays) < 7
    return day.month in months and (any(kinds) if either else all(kinds))


class Target(Section):
    """The target load of one pod for one model. It replaces the target derived from models.serving."""

    pending: Annotated[int, between(1, 100_000, "requests per pod")] | None = Field(
        default=None, description="requests in the model's queue; without it: derived from its SLO and rates"
    )
    busy: Annotated[float, fraction_between(_LEAST_BUSY, _MOST_BUSY, "busy instances per pod")] | None = Field(
        default=None,
        description="instances of the model that execute, on average; without it: derived from how many there are",
    )
    rate: Annotated[float, fraction_between(_LEAST_RATE, _MOST_RATE, "requests/s per pod")] | None = Field(
        default=None,
        description="requests per second that are answered, in the place of a derived `busy`: 80 % of what a pod was "
        "measured to answer within the SLO (`modelctl tune`); without it: not looked at",
    )


class Autoscaling(Section):
    """The minimum and maximum number of Triton pods, and the scaling signals. Required with an autoscaler, forbidden without
    one."""

    guide: ClassVar[str] = "docs/autoscaling.md"

    min_replicas: Annotated[int, between(0, 1000, "pods")] = Field(
        description="the fewest pods, like 2; 0: none while nothing is asked, with KEDA only; then a message in the request "
        "queue (section worker) starts the first pod, or a request at the gateway (sections gateway and monitoring)"
    )
    max_replicas: Pods = Field(description="the most pods, like 8")
    targets: dict[ModelName, Target] = Field(
        default_factory=dict, description="by model, the load that one pod should carry, where the derived one is not right"
    )
    cron_floor: CronFloor | None = Field(
        default=None, description="more pods at certain times, with KEDA only; without it: minReplicas at all times"
    )
    start_seconds: Annotated[int, between(1, 3600, "seconds")] | None = Field(
        default=None,
        description="the measured time from a pod that is wanted to one that is ready, in seconds; without it: assumed "
        "(spec/prometheus/timing.py)",
    )
    scale_down_after_seconds: Annotated[int, between(1, 3600, "seconds")] | None = Field(
        default=None,
        description="for how many seconds fewer pods have to be enough before one goes, and 75 at least before the last "
        "one does (minReplicas: 0); without it: two starts, and 600 at least; where each model has a queueTimeoutMs "
        "below its SLO, the part of a start that a pod takes on a node that is there, and 60 at least (minReplicas: 0: one "
        "start, and 300 at least)",
    )
    prometheus_url: _PrometheusUrl | None = Field(
        default=None, description="a Prometheus of your own; without it: that of the section monitoring"
    )
    warm_pods: Annotated[int, between(0, 100, "pods")] = Field(
        default=0, description="pods of Triton's size that hold nodes and give way to Triton's; with a node autoscaler only"
    )

    spare_pods: Annotated[int, between(0, 100, "pods")] | None = Field(
        default=None,
        description="pods beyond those that the busy instances ask for, for what comes while another one starts, with KEDA "
        "only; without it: 1, and 80 % of the instances may be busy, or half a pod and 90 % of a model with a "
        "queueTimeoutMs below its SLO; with 0, or without KEDA, 70 %",
    )

    @rule
    def _targets_say_something(self, at: Place) -> Iterator[Problem]:
        """Refuse targets without a value."""
        for name, target in self.targets.items():
            if target.pending is None and target.busy is None and target.rate is None:
                yield at.problem(f"targets.{name}", "is empty and changes nothing; give pending, busy or rate, or remove it")

    @rule
    def _warm_pods_have_an_heir(self, at: Place) -> Iterator[Problem]:
        """Require at most as many warmPods as pods that can still be added. They reserve nodes for those pods."""
        most = self.max_replicas - self.min_replicas
        if self.warm_pods > most >= 0:
            yield at.problem(
                "warmPods",
                f"{self.warm_pods} are more than the {most} pods that may come beyond minReplicas {self.min_replicas} "
                f"(maxReplicas {self.max_replicas}), so that their nodes would wait in vain; "
                + (f"give 0 to {most}" if most else "give 0"),
            )

    @rule
    def _spare_pods_are_not_all(self, at: Place) -> Iterator[Problem]:
        """Require fewer sparePods than maxReplicas; otherwise the number of pods would never follow the load."""
        if self.spare_pods and self.spare_pods >= self.max_replicas:
            yield at.problem(
                "sparePods",
                f"{self.spare_pods} leave none of maxReplicas {self.max_replicas} to follow a load; "
                f"give 0 to {self.max_replicas - 1}",
            )

    @rule
    def _bounds_are_ordered(self, at: Place) -> Iterator[Problem]:
        """Require minReplicas <= maxReplicas."""
        if self.min_replicas > self.max_replicas:
            yield at.problem(
                "minReplicas",
                f"{self.min_replicas} is more than maxReplicas {self.max_replicas}; give 0 to {self.max_replicas}",
            )

    @rule
    def _floor_is_in_bounds(self, at: Place) -> Iterator[Problem]:
        """Require cronFloor.replicas above minReplicas and up to maxReplicas."""
        if self.cron_floor is not None:
            pods = self.cron_floor.replicas
            yield from self._within(at, pods, "cronFloor.replicas")
            if pods == self.min_replicas < self.max_replicas:
                yield at.problem(
                    "cronFloor.replicas",
                    f"{pods} is what minReplicas keeps at all times; give {pods + 1} to {self.max_replicas}",
                )

    def _within(self, at: Place, pods: int, key: str) -> Iterator[Problem]:
        if self.min_replicas <= self.max_replicas and not self.min_replicas <= pods <= self.max_replicas:
            yield at.problem(key, f"{pods} is out of bounds; give {max(1, self.min_replicas)} to {self.max_replicas}")
