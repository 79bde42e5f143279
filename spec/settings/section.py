"""The base class of every mapping in a stack file: frozen, no extra keys, camelCase in YAML and snake_case here."""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from spec.charts import ChartPin


class Absent(Exception):
    """A rule read a value that is missing or invalid in the stack file. The value itself is already reported."""


def _alias(name: str) -> str:
    return to_camel(name).replace("Gib", "GiB").replace("Mib", "MiB")


def _required_without(schema: dict[str, Any], section: type[Any]) -> None:
    """Define in the JSON Schema which keys are required only if `existing` is not set."""
    keys = {_alias(name) for name in section.only_without_existing}
    if keys:
        required = schema.pop("required")
        schema["required"] = [key for key in required if key not in keys]
        schema["if"] = {"properties": {"existing": {"type": "object"}}, "required": ["existing"]}
        schema["else"] = {"required": [key for key in required if key in keys]}


class Section(BaseModel):
    """One mapping of a stack file.

    While problems are collected, a section may lack its invalid values, and reading one raises `Absent`. A section of the
    finished `Settings` is complete, except for the keys that `existing` replaces (`only_without_existing`).
    """

    guide: ClassVar[str] = ""
    """The page and heading about the section, for the reference. If empty, the enclosing section's page."""

    only_without_existing: ClassVar[frozenset[str]] = frozenset()
    """The keys that describe new resources. They exclude `existing`, which names existing resources, and are not required
    with it. Reading a missing one raises `Absent`.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", alias_generator=_alias, json_schema_extra=_required_without
    )

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the third-party charts that the stack installs because of this section alone."""
        return ()

    if not TYPE_CHECKING:  # so that mypy still knows the attributes of each section

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise Absent(name)
            return super().__getattr__(name)
