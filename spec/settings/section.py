"""The base of every mapping of a stack file: frozen, nothing extra, camelCase in YAML and snake_case here."""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from spec.charts import ChartPin


class Absent(Exception):
    """A check asked for a value that the stack file does not (validly) have; that has been reported on its own."""


def _alias(name: str) -> str:
    return to_camel(name).replace("Gib", "GiB").replace("Mib", "MiB")


def _required_without(schema: dict[str, Any], section: type[Any]) -> None:
    """Say in the JSON Schema which keys are required only where `existing` names nothing."""
    keys = {_alias(name) for name in section.only_without_existing}
    if keys:
        required = schema.pop("required")
        schema["required"] = [key for key in required if key not in keys]
        schema["if"] = {"properties": {"existing": {"type": "object"}}, "required": ["existing"]}
        schema["else"] = {"required": [key for key in required if key in keys]}


class Section(BaseModel):
    """One mapping of a stack file.

    While problems are being collected, a section may lack the values that are invalid. Reading one raises `Absent`. A
    section of the finished `Settings` is complete, but for what `existing` stands for (`only_without_existing`).
    """

    guide: ClassVar[str] = ""
    """The page, with its heading, that says how the section is used, for the reference; else that of the one around it."""

    only_without_existing: ClassVar[frozenset[str]] = frozenset()
    """The keys that describe what this program makes: none of them stands beside a key `existing`, which names what is there
    already, and those that are required otherwise are not then. Reading one that is not given raises `Absent`."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", alias_generator=_alias, json_schema_extra=_required_without
    )

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the third-party charts that a stack has by this section alone."""
        return ()

    if not TYPE_CHECKING:  # so that mypy still knows the attributes of each section

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise Absent(name)
            return super().__getattr__(name)
