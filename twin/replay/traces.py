"""Traces of requests: a CSV file, or the JSON response of Prometheus to a range query."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

LONGEST_SECONDS = 35 * 86_400
"""35 days. A longer trace is probably a mistake of units."""
MOST_RATE = 1_000_000.0
EVERY = None
"""The model of rates without a model: the total of all models, divided by the rates that the stack expects."""
MONDAY = 1_767_571_200.0
"""2026-01-05, 0:00 UTC: the start of a trace whose file has no dates."""
_YEARS = range(0, 4_102_444_800)
"""1970 to 2099, in seconds. A later moment is in milliseconds or invalid."""
_SINCE_1970 = 1_000_000_000
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_HEADERS = (["seconds", "requests_per_second"], ["seconds", "requests_per_second", "model"])
_SERIES = {"metric": {str: str}, "values": list}
_TOLD = 10

Rates = npt.NDArray[np.float64]


class TraceUnusable(Failure):
    """The trace cannot be read, or does not belong to this stack; the text says where and why."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class SlowPod:
    """The oldest pod takes `factor` times as long between two seconds of the trace."""

    begins: int
    ends: int
    factor: float


@dataclass(frozen=True)
class Outage:
    """Prometheus neither scrapes nor answers between two seconds of the trace."""

    begins: int
    ends: int


@dataclass(frozen=True)
class Trace:
    """Requests per second of each model (or of EVERY), one number per second, starting at `begins` (seconds since 1970)."""

    name: str
    rates: Mapping[str | None, Rates]
    begins: float = MONDAY
    slow_pod: SlowPod | None = None
    outage: Outage | None = None

    @property
    def seconds(self) -> int:
        """Return its length in seconds."""
        return max(len(rates) for rates in self.rates.values())


Points = dict[str | None, list[tuple[float, float]]]


def read(file: Path) -> Trace:
    """Read a trace. Raises TraceUnusable, with all problems."""
    try:
        text = reading.text_file(file)
    except Unreadable as error:
        raise TraceUnusable(f"--trace {error.within(file)}") from None
    parse = _of_prometheus if text.lstrip().startswith("{") else _of_csv
    points, problems = parse(text)
    if not problems and not any(points.values()):
        problems = ["it has no rates"]
    if not problems:
        begins = min(found[0][0] for found in points.values())
        ends = max(found[-1][0] for found in points.values())
        if ends - begins > LONGEST_SECONDS:
            problems = [f"it is {(ends - begins) / 86_400:.0f} days long; give {LONGEST_SECONDS // 86_400} at most"]
    if problems:
        more = f"\n  and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise TraceUnusable(f"--trace {file}: " + "\n  ".join(problems[:_TOLD]) + more)
    return Trace(file.name, _every_second(points, begins), begins if parse is _of_prometheus else MONDAY + begins)


def _of_csv(text: str) -> tuple[Points, list[str]]:
    rows = csv.reader(io.StringIO(text), strict=True)
    points: Points = {}
    try:
        header = next(rows, [])
        if header not in _HEADERS:
            return {}, ["line 1: is not `seconds,requests_per_second`, or the same with `,model`"]
        return points, list(_rows(rows, len(header), points))
    except csv.Error as error:
        return {}, [f"line {rows.line_num}: {error}"]


def _rows(rows: Any, columns: int, points: Points) -> Iterator[str]:
    """Yield the problems of the rows, and add the valid rows to the points."""
    for row in rows:
        at = f"line {rows.line_num}"
        if not row:
            continue
        if len(row) != columns:
            yield f"{at}: has {len(row)} values where the header has {columns}"
            continue
        seconds, rate = number(row[0]), number(row[1])
        if seconds is None or seconds < 0:
            yield f"{at}: '{row[0]}' is no number of seconds; give 0 or more"
        elif seconds >= _SINCE_1970:
            yield f"{at}: '{row[0]}' is a moment since 1970; give seconds from the beginning of the trace"
        elif rate is None or not 0 <= rate <= MOST_RATE:
            yield f"{at}: '{row[1]}' is no rate; give 0 to {MOST_RATE:,.0f} requests per second"
        elif columns == len(_HEADERS[1]) and not row[2].strip():
            yield f"{at}: names no model; name one, or leave the column out"
        else:
            found = points.setdefault(row[2] if columns == len(_HEADERS[1]) else EVERY, [])
            if found and seconds <= found[-1][0]:
                yield f"{at}: {row[0]} s come after {found[-1][0]:g} s; sort the rows of a model by their seconds, each once"
            else:
                found.append((seconds, rate))


def _of_prometheus(text: str) -> tuple[Points, list[str]]:
    """Read `{"data": {"resultType": "matrix", …}}`. Series of the same model (label `model`) are added up."""
    try:
        answer = reading.json_object(text)
    except Unreadable as error:
        return {}, [str(error)]
    data = answer.get("data")
    if answer.get("status", "success") != "success":
        return {}, [f"is an answer of the status {_short(answer['status'])} ({_short(answer.get('error'))}); ask again"]
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        return {}, ["is no answer to a range query: data.resultType has to be matrix (path /api/v1/query_range)"]
    # Thanos and remote reads return partial data, and list the sources that failed here.
    if warnings := answer.get("warnings"):
        return {}, [f"comes with warnings ({_short(warnings)}), so rates may be missing; ask again, or take `warnings` out"]
    sums: dict[str | None, dict[float, float]] = {}
    seen: list[dict[str, str]] = []
    problems = []
    for place, series in enumerate(data["result"]):
        at = f"data.result[{place}]"
        try:
            series = reading.checked(series, _SERIES, at)
        except Unreadable as error:
            problems.append(str(error))
            continue
        if "values" not in series:
            problems.append(f"{at}: has no values of a time and a number each; ask for numbers, not for histograms")
            continue
        labels = series.get("metric") or {}
        if labels in seen:
            problems.append(f"{at}: its labels are those of data.result[{seen.index(labels)}]; leave one of them out")
            continue
        seen.append(labels)
        # Prometheus treats an empty label as a missing one.
        of_model = sums.setdefault(labels.get("model") or EVERY, {})
        before = -1.0
        for index, pair in enumerate(series["values"] or ()):
            try:
                moment, rate = _sample(pair)
            except ValueError as error:
                problems.append(f"{at}.values[{index}]: {error}")
                break
            if moment <= before:
                problems.append(f"{at}.values[{index}]: {moment:.13g} comes after {before:.13g}; give each once, in order")
                break
            of_model[moment], before = of_model.get(moment, 0.0) + rate, moment
    if EVERY in sums and len(sums) > 1:
        problems.append("some series have a label `model` and others none, which would be counted twice; ask `by (model)`")
    for model, found in sums.items():
        if any(rate > MOST_RATE for rate in found.values()):
            named = "all series" if model is EVERY else f"the series of {model}"
            problems.append(f"{named} together are more than {MOST_RATE:,.0f} requests per second, which is the most")
    return {model: sorted(found.items()) for model, found in sums.items() if found}, problems


def _sample(pair: Any) -> tuple[float, float]:
    """Return moment and rate of `[1767571200, "12.5"]`. Raises ValueError with the problem."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("is no pair of a time and a number")
    moment, value = pair
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not _YEARS.start <= moment < _YEARS.stop:
        raise ValueError(f"{_short(moment)} is no time in seconds since 1970")
    rate = number(str(value)) if isinstance(value, str | int | float) else None
    if rate is None or not 0 <= rate <= MOST_RATE:
        raise ValueError(f"{_short(value)} is no rate; give 0 to {MOST_RATE:,.0f} requests per second")
    return float(moment), rate


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def number(text: str) -> float | None:
    """Return the number in a text if all programs read it alike; None for 1_000, non-ASCII digits and other text."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def _every_second(points: Points, begins: float) -> dict[str | None, Rates]:
    """Return one number per second: each value holds until the next one, and the last one as long as the one before."""
    ends = max(found[-1][0] + _last_step(found) for found in points.values())
    seconds = np.arange(math.ceil(ends - begins)) + begins
    rates = {}
    for model, found in points.items():
        times, values = (np.array(column) for column in zip(*found, strict=True))
        place = np.searchsorted(times, seconds, side="right") - 1
        rates[model] = np.where(place >= 0, values[np.maximum(place, 0)], 0.0)
    return rates


def _last_step(found: Sequence[tuple[float, float]]) -> float:
    return found[-1][0] - found[-2][0] if len(found) > 1 else 1.0
