"""The base of every mapping of a stack file: frozen, nothing extra, camelCase in YAML and snake_case here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Absent(Exception):
    """A check asked for a value that the stack file does not (validly) have; that has been reported on its own."""


def _alias(name: str) -> str:
    return to_camel(name).replace("Gib", "GiB").replace("Mib", "MiB")


class Section(BaseModel):
    """One mapping of a stack file.

    While problems are being collected, a section may lack the values that are invalid. Reading one raises `Absent`. A
    section of the finished `Settings` is complete.
    """

    guide: ClassVar[str] = ""
    """The page, with its heading, that says how the section is used; its reference links to it."""

    gone: ClassVar[Mapping[str, str]] = {}
    """Keys that the section had once, each with the sentence that says what to do about it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", alias_generator=_alias)

    if not TYPE_CHECKING:  # so that mypy still knows the attributes of each section

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise Absent(name)
            return super().__getattr__(name)
