"""Where the values of a stack come from: the engine, or the YAML file itself."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime.config
import yaml

from spec.settings.checks import Subject, problems_in, warnings_about
from spec.settings.model import Document, Settings
from spec.settings.problem import Problem, SettingsError
from spec.settings.structure import read
from spec.stack_names import stack_file
from spec.versions import PROJECT
from spec.wording import did_you_mean

_PLAIN_TEXT_KEYS = ("aws:region", "environment")
# Top-level keys of a Pulumi stack file. Only `config` is ours.
_STACK_FILE_KEYS = ("config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment", "packages")


def load(config: Mapping[str, Any], stack: str, *, today: date | None = None) -> Settings:
    """Settings from config keys (`triton-eks:network`, `aws:region`, ...) to values, as YAML gives them or as JSON text.

    `today` decides what is supported; it defaults to the date of this run. Raises SettingsError with every problem.
    """
    document, problems = read(_document(config))
    subject = Subject(document, stack, today or date.today())
    problems.extend(problems_in(subject))
    if problems:
        raise SettingsError(stack_file(stack), _in_file_order(problems))
    values = {name: getattr(document, name) for name in Document.model_fields}
    return Settings.model_construct(**values, warnings=tuple(warnings_about(subject)))


def from_pulumi() -> Settings:
    """Settings of the stack that the engine runs. Raises SettingsError with every problem."""
    config = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    return load(config, pulumi.get_stack())


def load_stack_file(path: str | Path, *, today: date | None = None) -> Settings:
    """Settings of a `Pulumi.<stack>.yaml`. Raises SettingsError with every problem, FileNotFoundError without a file."""
    path = Path(path)
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    return load(read_config(path.read_text(encoding="utf-8"), stack_file(stack)), stack, today=today)


def read_config(text: str, source: str) -> dict[str, Any]:
    """The `config` mapping of a stack file's text. Raises SettingsError, with `source` as the name of the file."""
    try:
        content = yaml.load(text, Loader=_NoDuplicates)  # noqa: S506 (a SafeLoader that refuses duplicate keys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        raise SettingsError(source, [Problem(where, f"{error.problem}; give valid YAML")]) from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise SettingsError(source, [Problem("config", "is missing; give the mapping of all settings")])
    unknown = [key for key in content if key not in _STACK_FILE_KEYS]
    if unknown:
        raise SettingsError(
            source,
            [
                Problem(str(key), f"unknown key; {did_you_mean(key, _STACK_FILE_KEYS)}settings go under config")
                for key in unknown
            ],
        )
    return {str(key): value for key, value in content["config"].items()}


class _NoDuplicates(yaml.SafeLoader):
    """YAML says that the last of two equal keys wins; in a stack file that is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key.value}' is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _document(config: Mapping[str, Any]) -> dict[str, Any]:
    """Config keys as the keys of `Document`; values that the engine passes as JSON text are decoded."""
    document = {}
    for key, value in config.items():
        if key.startswith("pulumi:"):
            continue  # the engine's own
        name = key.removeprefix(f"{PROJECT}:")
        document[name] = value if name in _PLAIN_TEXT_KEYS else _decoded(value)
    return document


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _in_file_order(problems: list[Problem]) -> list[Problem]:
    """The problems in the order of the sections, without repetitions."""
    sections = [field.alias or name for name, field in Document.model_fields.items()]

    def order(problem: Problem) -> int:
        section = problem.path.partition(".")[0].partition("[")[0]
        return sections.index(section) if section in sections else len(sections)

    return sorted(dict.fromkeys(problems), key=order)
