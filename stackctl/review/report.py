"""Hold the data of the comment about one stack, and convert it to JSON.

A job that runs a fork's code writes it, and a job that may write comments reads it. So every field is checked on reading.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from stackctl.review.plan import Plan

SCHEMA = 5
MOST_BYTES = 20_000_000
"""Largest report that is read. The report of a whole stack has less than one million."""
_NUMBER = re.compile(r"-?[0-9]{1,13}(?:\.[0-9]{1,60})?(?:E[+-]?[0-9]{1,2})?")
"""The form in which Decimal is written. Decimal also reads digits of any script, blanks and underscores."""
_LARGEST = Decimal(10**12)
"""Largest number, in US dollars; no stack costs as much."""


class UnreadableReport(Failure):
    """JSON that is not a report. The message gives the place."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class ModelChange:
    """A model of the stack's release. None: it is not served."""

    model: str
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Candidate:
    """A release on separate pods, with its share of requests and mirrored requests.

    Shares are in percent.
    """

    release: str
    percent: int
    mirrored: int


@dataclass(frozen=True)
class Range:
    """US dollars a month with the minimum, expected and maximum number of nodes."""

    min: Decimal
    expected: Decimal
    max: Decimal


@dataclass(frozen=True)
class CostLine:
    """A node pool or another part of the bill. None: it does not exist before, or after."""

    name: str
    before: Range | None
    after: Range | None


@dataclass(frozen=True)
class ModelMove:
    """A model that moves to other fleets or gets other weights.

    `before` and `after` are names of fleets, with the weight unless it is 1. `torn`: fleets that lose the model while
    they still receive requests for it.
    """

    model: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    torn: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeasuredCost:
    """Node cost of a million inferences of a model at its measured rate.

    It is in US dollars. None: not measured.
    """

    model: str
    before: Decimal | None
    after: Decimal | None


@dataclass(frozen=True)
class Cost:
    """The monthly cost of the stack at list prices of `region` at a date.

    `before` None: the base could not be read. `per_million`: US dollars for a million inferences at the stack's expected
    rates. `measured`: each model with a measured throughput, before or after. `notes` name the models without one.
    """

    region: str
    as_of: str
    before: Range | None
    after: Range
    lines: tuple[CostLine, ...]
    per_million_before: Decimal | None = None
    per_million_after: Decimal | None = None
    measured: tuple[MeasuredCost, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quota:
    """The minimum of a service quota for the stack at its largest size.

    `before` None: the base could not be read.
    """

    name: str
    code: str
    unit: str
    before: int | None
    after: int


@dataclass(frozen=True)
class Figures:
    """Results of a replayed load.

    `missed`: the share of the requests that missed the SLO. `gpu_hours`: hours of GPUs. `usd`: US dollars of their nodes.
    `shortage`: the seconds of the longest time in which the ready pods could not answer the load. `turns`: how often the
    desired number of pods changed its direction.
    """

    missed: Decimal
    gpu_hours: Decimal
    usd: Decimal | None
    shortage: int = 0
    turns: int = 0


@dataclass(frozen=True)
class ReplayedFleet:
    """A fleet under the same load before and after. None: it does not exist."""

    name: str
    before: Figures | None
    after: Figures | None


@dataclass(frozen=True)
class Replay:
    """The fleets for which a trace has another result than before (docs/replay.md), if any.

    `notes`: the assumptions of the result.
    """

    trace: str
    fleets: tuple[ReplayedFleet, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The report of one stack. `base`: the revision that it is compared with.

    In other fields None means unknown, which is not zero.
    """

    stack: str
    plan: Plan
    base: str | None = None
    models: tuple[ModelChange, ...] | None = None
    release_before: str | None = None
    release_after: str | None = None
    cost: Cost | None = None
    quotas: tuple[Quota, ...] | None = None
    moves: tuple[ModelMove, ...] = ()
    replays: tuple[Replay, ...] = ()
    candidate_before: Candidate | None = None
    candidate_after: Candidate | None = None
    schema: int = SCHEMA

    def to_json(self) -> str:
        """Return the report as text that `from_json` reads."""
        return json.dumps(_plain(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def from_json(text: str) -> Report:
    """Parse a report. Raises UnreadableReport."""
    if len(text) > MOST_BYTES:
        raise UnreadableReport(f"{len(text)} characters are more than a report has")
    try:
        document = reading.json_object(text)
    except Unreadable as error:
        raise UnreadableReport(str(error)) from None
    if document.get("schema") != SCHEMA:
        raise UnreadableReport(f"schema {document.get('schema')!r}; this program reads schema {SCHEMA}")
    report: Report = _build(Report, document, "report")
    return report


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _build(kind: Any, value: Any, path: str) -> Any:
    """Return `value` as type `kind`.

    Kinds are dataclasses, their scalars, tuples, mappings of text and alternatives of None. Raises UnreadableReport.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [argument for argument in arguments if argument is not type(None)]
        return None if value is None else _build(rest[0], value, path)
    if origin is typing.Literal:
        if value in arguments:
            return value
    elif origin is tuple:
        if isinstance(value, list):
            return tuple(_build(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    elif origin is not None and issubclass(origin, Mapping):
        if isinstance(value, dict):
            return {key: _build(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    elif dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _object(kind, value, path)
    elif kind is Decimal and isinstance(value, str):
        return _decimal(value, path)
    elif kind in (str, int, bool) and type(value) is kind:
        return value
    raise UnreadableReport(f"{path}: {type(value).__name__} where {getattr(kind, '__name__', kind)} is expected")


def _object(kind: Any, value: dict[str, Any], path: str) -> Any:
    hints = typing.get_type_hints(kind)
    unknown = value.keys() - hints.keys()
    if unknown:
        raise UnreadableReport(f"{path}: unknown keys {', '.join(sorted(unknown))}")
    given = {name: _build(hints[name], item, f"{path}.{name}") for name, item in value.items()}
    try:
        return kind(**given)
    except TypeError:
        missing = [field.name for field in dataclasses.fields(kind) if field.name not in given and _is_required(field)]
        raise UnreadableReport(f"{path}: {', '.join(missing)} missing") from None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _decimal(value: str, path: str) -> Decimal:
    if not _NUMBER.fullmatch(value) or abs(number := Decimal(value)) > _LARGEST:
        raise UnreadableReport(f"{path}: {value[:40]!r} is not a number")
    return number


_NO_REPORT = "There is no report of this stack: its job ended before. The log of the run says why."
_NOT_READ = "The report of this stack cannot be read"
_OTHER_FORM = "Where a change gives reports another form, this comment is made by the base's program, which reads its own."


class NoReport(Failure):
    """A report is missing or invalid. The text names it and the command that writes one."""

    exit_code = NOT_TRIED


def read_all(paths: Sequence[Path]) -> list[Report]:
    """Return the reports of these files and folders, sorted by stack.

    Raises NoReport, also without any report, because an unknown result must not pass.
    """
    found = []
    for file in _files(paths):
        try:
            found.append(_read(file))
        except UnreadableReport as error:
            raise NoReport(f"{file} is no report of `stackctl review collect`: {error}") from None
    if not found:
        raise _none_in(paths)
    return sorted(found, key=lambda made: made.stack)


def read_for_comment(paths: Sequence[Path], stacks: Collection[str]) -> list[Report]:
    """Return the reports of these files and folders, sorted by stack.

    Missing `stacks` appear as failed. An unreadable report becomes a failed one, so an untrusted report cannot hide other
    stacks. Raises NoReport if there is nothing to comment on.
    """
    found = [_readable(file) for file in _files(paths)]
    if not found and not stacks:
        raise _none_in(paths)
    missing = set(stacks) - {made.stack for made in found}
    found += [Report(stack, Plan((), errors=(_NO_REPORT,))) for stack in missing]
    return sorted(found, key=lambda made: made.stack)


def _none_in(paths: Sequence[Path]) -> NoReport:
    where = f"in {', '.join(map(str, paths))}" if paths else "given"
    how = "`python3 -m stackctl review collect STACK --preview FILE --output REPORT` makes one"
    return NoReport(f"there is no report {where}: {how}")


def _readable(file: Path) -> Report:
    try:
        return _read(file)
    except UnreadableReport as error:
        return Report(file.stem, Plan((), errors=(f"{_NOT_READ}: {error}\n{_OTHER_FORM}",)))


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (_below(path) if path.is_dir() else [path])]


def _below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.json") if file.is_file())


def _read(file: Path) -> Report:
    content = reading.file(file, MOST_BYTES)
    try:
        text = reading.text(content)
    except Unreadable as error:
        raise UnreadableReport(str(error)) from None
    return from_json(text)
