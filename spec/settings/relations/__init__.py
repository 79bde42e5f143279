"""Rules between sections, by subject. `problems_in` runs the rules of each section (`spec.settings.rule`), then these.

A rule with an invalid input is skipped, so it neither hides nor repeats the problem that is already reported. All modules of
this package are imported, and rules are found by their mark, not by a list.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

from spec.problem import Problem
from spec.settings.pipelines import StepServing
from spec.settings.relations.subject import Subject
from spec.settings.rule import Place, ToldAs, marked
from spec.settings.section import Absent, Section

__all__ = ["Subject", "modules", "problems_in", "warnings_about"]


def problems_in(subject: Subject) -> list[Problem]:
    """Return all violations by the valid values of a stack file."""
    return _told(subject, "problem")


def warnings_about(subject: Subject) -> list[Problem]:
    """Return warnings about valid settings that should be changed soon."""
    return _told(subject, "warning")


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules with rules between sections."""
    return tuple(importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))


def _told(subject: Subject, told_as: ToldAs) -> list[Problem]:
    found: list[Problem] = []
    for section, place in _sections(subject.document, Place("", subject.stack, subject.environment, subject.today)):
        for check in marked(vars(type(section)), told_as):
            found.extend(_until_absent(check(section, place)))
    for module in modules():
        for check in marked(vars(module), told_as):
            found.extend(_until_absent(check(subject)))
    return found


def _sections(value: Any, place: Place) -> Iterator[tuple[Section, Place]]:
    """Yield the valid sections of a value, each with its place."""
    if isinstance(value, Section):
        yield value, place
        for name, field in type(value).model_fields.items():
            key = field.alias or name
            path = f"{place.path}.{key}" if place.path else key
            yield from _sections(value.__dict__.get(name), replace(place, path=path))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _sections(item, replace(place, path=f"{place.path}[{index}]"))
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, StepServing):
                continue  # the pipeline's entry has the same values
            yield from _sections(item, replace(place, path=f"{place.path}.{key}"))


def _until_absent(found: Iterator[Problem]) -> Iterator[Problem]:
    try:
        yield from found
    except Absent:
        return
