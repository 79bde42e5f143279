"""Write docs/stack-file.md and spec/stack-file.schema.json from the settings: `make reference`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import MinLen
from markdown.extensions.toc import slugify
from pydantic.fields import FieldInfo

from spec.settings import relations
from spec.settings.kind import Kind
from spec.settings.model import Document
from spec.settings.rule import marked
from spec.settings.schema import SCHEMA_FILE, schema_text
from spec.settings.section import Section
from spec.stack_file import full_name
from spec.wording import one_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "stack-file.md"

_HEAD = """\
# The stack file

Every key of `stacks/Pulumi.<stack>.yaml`, below `config`. This page is written from the code (`make reference`).

- A key that is not here is refused, and so is a value that does not fit: every mistake is told at once, with its place and
  with what would be right.
- Editors with a YAML language server complete and check keys by [the JSON Schema](../spec/stack-file.schema.json), which the
  first line of each stack file names. It knows each key under its full name and each value as YAML; Pulumi takes `network`
  for `triton-eks:network` too, and JSON in quotes for a mapping, as `pulumi config set` writes it.
- Rules between values are not in the schema: `make preview STACK=<stack>` tells them without credentials. Those of one
  section stand below its keys, [those between sections](#rules-between-sections) at the end.
"""
_WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def page() -> str:
    """Return the page."""
    all_of_it = f"## All of it\n\n{_where(Document, Document.guide)}\n\n{_table(Document)}"
    blocks = [_HEAD, all_of_it, _rules(vars(Document)) + "\n"]
    described: dict[type[Section], str] = {}
    for name, field in Document.model_fields.items():
        for section in _sections_in(field.annotation):
            blocks.extend(_section(section, full_name(field.alias or name), "##", Document.guide, described))
    blocks.append("## Rules between sections\n")
    for module in relations.modules():
        if sentences := _rules(vars(module)):
            about = f"{(module.__doc__ or '').strip()}\n\nIn {_link(_path(module.__name__))}:"
            blocks.append(f"### {_relation(_path(module.__name__))}\n\n{about}\n\n{sentences}\n")
    return "\n".join(blocks)


def _rules(names: Mapping[str, Any]) -> str:
    """Return the rules of a class or a module, a line for each."""
    found = [*marked(names, "problem"), *marked(names, "warning")]
    return "\n".join(f"- {_cell(first_paragraph(check))}" for check in found)


def first_paragraph(check: Callable[..., Any]) -> str:
    """Return the sentence of a rule."""
    return " ".join((check.__doc__ or "").partition("\n\n")[0].split())


def _section(
    section: type[Section], path: str, level: str, guide: str, described: dict[type[Section], str]
) -> Iterator[str]:
    """Yield a section and those in it; of one that stands on the page already, where. `guide`: of the section around it."""
    there = described.setdefault(section, path)
    if there != path:
        yield f"{level} {path}\n\nThe keys of [{there}](#{slugify(there, '-')}).\n"
        return
    guide = section.guide or guide
    paragraphs = [f"{level} {path}", " ".join((section.__doc__ or "").split()), _where(section, guide)]
    yield "\n\n".join([*map(_wrapped, paragraphs), _table(section)])
    if sentences := _rules(vars(section)):
        yield sentences + "\n"
    for name, field in section.model_fields.items():
        for inner in _sections_in(field.annotation):
            step = f"{path}.{field.alias or name}{_step(field.annotation)}"
            yield from _section(inner, step, "###", guide, described)


def _where(section: type[Section], guide: str) -> str:
    """Return the links to the page that says how a section is used, and to the module of its keys."""
    return f"How to: [{_title(guide)}]({guide.removeprefix('docs/')}). Keys and rules: {_link(_path(section.__module__))}"


def _table(section: type[Section]) -> str:
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in section.model_fields.items():
        key = full_name(field.alias or name) if section is Document else field.alias or name
        cells = [
            f"`{key}`",
            _value(field),
            _default(section, name, field),
            str(field.description),
        ]
        rows.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows) + "\n"


def _relation(path: str) -> str:
    """Return the heading above the rules of a module of relations."""
    return f"Rules: {Path(path).stem}"


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _link(path: str) -> str:
    return f"[{path}](../{path})" if path.endswith(".py") else path


def _default(section: type[Section], name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required without `existing`" if name in section.only_without_existing else "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ((), {}) or isinstance(value, Section):
        return ""
    return f"`{json.dumps(value)}`"


def _value(field: FieldInfo) -> str:
    return _words(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)


def _words(annotation: Any) -> str:
    """Return in words which values an annotation means."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin in (Union, UnionType):
        return _words(next(part for part in arguments if part is not NoneType))
    if origin is Literal:
        return one_of(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return f"mapping of names ({_words(arguments[0])}) to {_words(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section"
    return _WORDS[annotation]


def _annotated(annotation: Any, metadata: Iterable[Any]) -> str:
    for entry in metadata:
        if isinstance(entry, Kind):
            valid = entry.valid.removeprefix("give ").removeprefix("use ")
            return valid if entry.alone or annotation is str else f"{_words(annotation)}: {valid}"
    least = next((f", at least {entry.min_length}" for entry in metadata if isinstance(entry, MinLen)), "")
    return _words(annotation) + least


def _sections_in(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [found for part in get_args(annotation) for found in _sections_in(part)]


def _step(annotation: Any) -> str:
    """Return how a path goes on from a key to the section in it: `[]` through a list, `.<name>` through a mapping."""
    origin = get_origin(annotation)
    if origin is tuple:
        return "[]"
    if origin is dict:
        return ".&lt;name&gt;"
    return next((step for part in get_args(annotation) if (step := _step(part))), "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _wrapped(text: str) -> str:
    return text if text.startswith("#") else textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


def _title(path: str) -> str:
    """Return the heading that a link leads to: of the page, or below it."""
    page, _, anchor = path.partition("#")
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
    return next((text for text in headings if slugify(text, "-") == anchor), headings[0])


def main() -> None:
    """Write docs/stack-file.md and the JSON Schema of stack files anew from the settings."""
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
