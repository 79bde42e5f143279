"""Read a stack file into its sections, and turn pydantic's errors into messages.

If some values are invalid, the rest is still read. So the same run checks relations between the valid values.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from spec.problem import Problem, describe, render_path
from spec.settings.model import Document
from spec.settings.section import Section
from spec.versions import PROJECT
from spec.wording import did_you_mean, nearest, one_of

Location = tuple[str | int, ...]
S = TypeVar("S", bound=Section)
# The last path element with which pydantic marks an error about a mapping's key instead of its value.
_KEY = "[key]"


def read(raw: Mapping[str, Any]) -> tuple[Document, list[Problem]]:
    """Return the stack file as sections, and all problems of single keys and values.

    The document lacks the invalid values (see `Section`).
    """
    try:
        document = Document.model_validate_json(json.dumps(raw, default=str))
        document.complete()
        return document, []
    except ValidationError as error:
        errors = [details for details in error.errors(include_url=False) if not _is_echo(details)]
    problems = [Problem(_path(details), _sentence(details)) for details in errors if not _is_there_already(details)]
    invalid = {tuple(details["loc"]) for details in errors}
    document = _salvage(Document, raw, (), invalid)
    document.complete()
    return document, problems


def _is_echo(details: ErrorDetails) -> bool:
    """Return whether pydantic calls a list too short only because its items are invalid and already reported."""
    return details["type"] == "too_short" and bool(details["input"])


def _is_there_already(details: ErrorDetails) -> bool:
    """Return whether a missing key is not required because the section has `existing`."""
    if details["type"] != "missing" or not isinstance(details["input"].get("existing"), Mapping):
        return False
    *parents, key = details["loc"]
    section = _section(parents)
    return key in {_alias(name, section.model_fields[name]) for name in section.only_without_existing}


def _path(details: ErrorDetails) -> str:
    location = details["loc"]
    if details["type"] == "extra_forbidden" and len(location) == 1:
        return _in_file(str(location[0]))
    return render_path(location[:-1] if location and location[-1] == _KEY else location)


def _sentence(details: ErrorDetails) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    location = details["loc"]
    if kind == "sentence":
        return str(context["sentence"])
    if kind == "missing":
        field = _field(location)
        return f"is missing; {'add the section: ' if _section_type(field.annotation) else 'give '}{field.description}"
    if kind == "extra_forbidden":
        if len(location) == 1:
            return _unknown_section(str(location[0]))
        section = _section(location[:-1])
        keys = [_alias(name, field) for name, field in section.model_fields.items()]
        return f"unknown key; {did_you_mean(location[-1], keys)}the keys here are {', '.join(keys)}"
    if kind == "literal_error":
        choices = [choice for choice in get_args(_bare(_field(location).annotation)) if choice is not None]
        return f"{_shown(value)} is not a choice; {did_you_mean(value, choices)}use {one_of(choices)}"
    if kind.startswith("int"):
        digits = isinstance(value, str) and value.isdigit()
        return f"{describe(value)}; give a whole number" + (" without quotes" if digits else "")
    if kind.startswith("float"):
        digits = isinstance(value, str) and value.replace(".", "", 1).isdigit()
        return f"{describe(value)}; give a number" + (" without quotes" if digits else "")
    if kind.startswith("bool"):
        return f"{describe(value)}; give true or false"
    if kind == "string_type":
        return f"{describe(value)}; give text"
    if kind == "tuple_type":
        return f"{describe(value)}; give a list in square brackets"
    if kind in ("model_type", "dict_type"):
        return f"{describe(value)}; give a mapping of keys to values"
    if kind == "too_short":
        return "is empty; give at least one"
    raise AssertionError(f"no sentence for pydantic's {kind} at {render_path(location)}: {details['msg']}")


def _unknown_section(key: str) -> str:
    """Return the message for an unknown top-level key, with the namespaced keys of the file: `triton-eks:gpu`."""
    keys = [_in_file(_alias(name, field)) for name, field in Document.model_fields.items()]
    # Compare without namespaces: they make all keys look similar, and the namespace itself may be wrong.
    by_name = {known.rpartition(":")[2]: known for known in keys}
    meant = nearest(key.rpartition(":")[2], by_name)
    suggestion = f"did you mean '{by_name[meant]}'? " if meant else ""
    return f"unknown key; {suggestion}the keys here are {', '.join(keys)}"


def _in_file(key: str) -> str:
    """Return a key of `config` with its namespace. Pulumi assumes the project's namespace for a key without one."""
    return key if ":" in key else f"{PROJECT}:{key}"


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else describe(value).partition(" is ")[0]


def _alias(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _bare(annotation: Any) -> Any:
    """Return the annotation without `Annotated` and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _section_type(annotation: Any) -> type[Section] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, Section) else None


def _item_section_type(annotation: Any) -> type[Section] | None:
    bare = _bare(annotation)
    return _section_type(get_args(bare)[0]) if get_origin(bare) is tuple else None


def _entry_section_type(annotation: Any) -> type[Section] | None:
    bare = _bare(annotation)
    return _section_type(get_args(bare)[1]) if get_origin(bare) is dict else None


def _section(location: Sequence[str | int]) -> type[Section]:
    section: type[Section] = Document
    parts = iter(location)
    for part in parts:
        annotation = _by_alias(section, part).annotation
        inner = _section_type(annotation)
        if inner is None and (inner := _item_section_type(annotation) or _entry_section_type(annotation)):
            next(parts, None)  # the index of the item, or the key of the entry
        section = inner or section
    return section


def _field(location: Sequence[str | int]) -> FieldInfo:
    """Return the field at a location."""
    return _by_alias(_section(location[:-1]), location[-1])


def _by_alias(section: type[Section], alias: str | int) -> FieldInfo:
    return next(field for name, field in section.model_fields.items() if _alias(name, field) == alias)


def _salvage(section: type[S], raw: Any, at: Location, invalid: set[Location]) -> S:
    """Return the section with only its valid values."""
    values: dict[str, Any] = {}
    absent: set[str] = set()
    for name, field in section.model_fields.items():
        location = (*at, _alias(name, field))
        given = raw.get(_alias(name, field)) if isinstance(raw, Mapping) else None
        if not any(path[: len(location)] == location for path in invalid):
            if isinstance(raw, Mapping) and _alias(name, field) in raw:
                values[name] = _value_adapter(section, name).validate_json(json.dumps(given, default=str), strict=True)
            elif not isinstance(raw, Mapping):
                absent.add(name)
        elif location in invalid:
            absent.add(name)
        elif isinstance(given, Mapping) and (inner := _section_type(field.annotation)):
            values[name] = _salvage(inner, given, location, invalid)
        elif isinstance(given, list) and (inner := _item_section_type(field.annotation)):
            values[name] = tuple(_salvage(inner, item, (*location, index), invalid) for index, item in enumerate(given))
        elif isinstance(given, Mapping) and (inner := _entry_section_type(field.annotation)):
            values[name] = {
                key: _salvage(inner, entry, (*location, key), invalid)
                for key, entry in ((str(key), entry) for key, entry in given.items())
                if (*location, key, _KEY) not in invalid
            }
        else:
            absent.add(name)
    built = section.model_construct(**values)
    for name in absent:
        built.__dict__.pop(name, None)  # model_construct set the default for a key whose value is invalid
    return built


@cache
def _value_adapter(section: type[Section], name: str) -> TypeAdapter[Any]:
    field = section.model_fields[name]
    annotation: Any = field.annotation
    return TypeAdapter(Annotated[annotation, *field.metadata] if field.metadata else annotation)
