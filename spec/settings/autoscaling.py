"""What an autoscaler may do with Triton's pods: `triton-eks:autoscaling`."""

import re
from typing import Annotated, Any
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, PlainValidator

from spec.settings.fields import ModelName, between, refuse
from spec.settings.problem import describe
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
"""Name, least, most, and names of the values of each field, as KEDA's parser (robfig/cron) has them."""
_CRON_PART = re.compile(r"(?:\*|\?|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[1-9]\d*))?")
_PROMETHEUS_URL = re.compile(r"https?://[A-Za-z0-9.-]+:\d{1,5}")
_LEAST_BUSY, _MOST_BUSY = 0.05, 512.0

Pods = Annotated[int, between(1, 1000, "pods")]


def _busy(value: float) -> float:
    if not _LEAST_BUSY <= value <= _MOST_BUSY:
        refuse(f"{value:g} is out of range; use {_LEAST_BUSY} to {_MOST_BUSY:g} busy instances per pod")
    return value


def _cron(value: Any) -> str:
    """Checked here, because KEDA scales nothing at all, not even by the other triggers, while it cannot read one."""
    valid = 'give minute, hour, day, month and weekday in quotes, like "0 7 * * 1-5"'
    if not isinstance(value, str):
        refuse(f"{describe(value)}; {valid}")
    fields = value.split()
    if len(fields) != len(_CRON_FIELDS):
        refuse(f"'{value}' is not a cron expression of five fields; {valid}")
    for text, (name, least, most, names) in zip(fields, _CRON_FIELDS, strict=True):
        if not all(_is_cron_part(part, least, most, names) for part in text.split(",")):
            also = f" or {names[0]} to {names[-1]}" if names else ""
            refuse(f"'{text}' is no value for the {name}; use {least} to {most}{also}, like *, 1, 1-5, 1,3 or */2")
    return value


def _is_cron_part(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    match = _CRON_PART.fullmatch(part.lower())
    if match is None:
        return False
    bounds = [text for text in (match["first"], match["last"]) if text is not None]
    numbers = [names.index(text) + least if text in names else int(text) if text.isdecimal() else -1 for text in bounds]
    return all(least <= number <= most for number in numbers) and numbers == sorted(numbers)


def _timezone(value: Any) -> str:
    valid = "give a name of the IANA time zone database, like Europe/Zurich"
    if not isinstance(value, str):
        refuse(f"{describe(value)}; {valid}")
    known = available_timezones()  # empty on a machine without that database
    if known and value not in known:
        refuse(f"'{value}' is not a time zone; {did_you_mean(value, known)}{valid}")
    return value


def _prometheus_url(value: Any) -> str:
    valid = "give scheme, host and port only, like http://prometheus.observability.svc:9090"
    if not isinstance(value, str):
        refuse(f"{describe(value)}; {valid}")
    if not _PROMETHEUS_URL.fullmatch(value):
        refuse(f"'{value}' is not the address of a Prometheus; {valid}")
    return value


_Cron = Annotated[str, PlainValidator(_cron)]


class CronFloor(Section):
    """Pods that there are at least between two moments that come again, as cron expressions in a time zone."""

    start: _Cron = Field(description='when it begins, as a cron expression in quotes, like "0 7 * * 1-5"')
    end: _Cron = Field(description='when it ends, as a cron expression in quotes, like "0 19 * * 1-5"')
    timezone: Annotated[str, PlainValidator(_timezone)] = Field(description="the time zone of both, like Europe/Zurich")
    replicas: Pods = Field(description="the fewest pods in that time")


class Target(Section):
    """What one pod should carry of a model. None: derived from the model's wants (`spec.scaling.signal`).

    `pending`: requests in its queue. `busy`: instances of it that execute, on average.
    """

    pending: Annotated[int, between(1, 100_000, "requests per pod")] | None = None
    busy: Annotated[float, AfterValidator(_busy)] | None = None


class Autoscaling(Section):
    """How many pods of Triton there may be, and what decides. Required with an autoscaler, forbidden without one.

    `targets`, by model: what takes the place of a derived target. `fallback_replicas`: pods that there are at least while
    Prometheus does not answer; None: `min_replicas`, so that nothing is scaled down then. `start_seconds`: measured, from a
    pod that is wanted to one that is ready; None: assumed (`spec.scaling.behavior`). `scale_down_after_seconds`: for how
    long fewer pods have to be enough before one goes; None: two starts, and 600 s at least. `prometheus_url`: a Prometheus
    of one's own; None: that of the stack's monitoring. `warm_pods`: pods of Triton's size that hold nodes and give way.
    """

    min_replicas: Pods = Field(description="the fewest pods, like 2")
    max_replicas: Pods = Field(description="the most pods, like 8")
    targets: dict[ModelName, Target] = Field(default_factory=dict)
    fallback_replicas: Pods | None = None
    cron_floor: CronFloor | None = None
    start_seconds: Annotated[int, between(1, 3600, "seconds")] | None = None
    scale_down_after_seconds: Annotated[int, between(1, 3600, "seconds")] | None = None
    prometheus_url: Annotated[str, PlainValidator(_prometheus_url)] | None = None
    warm_pods: Annotated[int, between(0, 100, "pods")] = 0
