"""Load the settings of a stack from its YAML file or from the caller's config keys."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from spec import reading
from spec import stack_file as spec_stack_file
from spec.problem import Problem, SettingsError
from spec.reading import Unreadable
from spec.settings.model import Document, Settings
from spec.settings.relations import Subject, problems_in, warnings_about
from spec.settings.structure import read
from spec.stack_file import StackFileError
from spec.stack_names import stack_file
from spec.versions import PROJECT
from spec.wording import did_you_mean, nearest
from spec.yaml_reader import LARGEST_BYTES

_PLAIN_TEXT_KEYS = ("aws:region", "environment")
# Top-level keys of a Pulumi stack file. This program uses only `config`.
STACK_FILE_KEYS = ("config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment", "packages")


def load(config: Mapping[str, Any], stack: str, *, today: date | None = None) -> Settings:
    """Return the settings from config keys (`triton-eks:network`, `aws:region`, ...) with YAML values or JSON text.

    `today` is the date for all checks of support windows; the default is the current date. Raises SettingsError with every
    problem.
    """
    given, twice = _document(config)
    document, problems = read(given)
    problems = [*twice, *problems]
    subject = Subject(document, stack, today or date.today())
    problems.extend(problems_in(subject))
    if problems:
        raise SettingsError(stack_file(stack), _in_file_order(problems))
    values = {name: getattr(document, name) for name in Document.model_fields}
    return Settings.model_construct(**values, stack=stack, today=subject.today, warnings=tuple(warnings_about(subject)))


def load_stack_file(path: str | Path, *, today: date | None = None) -> Settings:
    """Return the settings of a `Pulumi.<stack>.yaml`. Raises SettingsError with every problem, or Unreadable."""
    return load_content(reading.file(Path(path), LARGEST_BYTES), path, today=today)


def load_content(content: bytes, path: str | Path, *, today: date | None = None) -> Settings:
    """Return the settings from the current or future content of `path`. Raises like `load_stack_file`."""
    stack = Path(path).name.removeprefix("Pulumi.").removesuffix(".yaml")
    return load(read_config(content, stack_file(stack)), stack, today=today)


def read_config(content: bytes | str, source: str) -> dict[str, Any]:
    """Return the `config` of a stack file by full key names. Raises SettingsError; `source` names the file."""
    try:
        found = spec_stack_file.read(content)
    except StackFileError as error:
        mistakes = [Problem(mistake.place or "the file", mistake.problem) for mistake in error.mistakes]
        raise SettingsError(source, mistakes) from None
    unknown = [key for key in found.rest if key not in STACK_FILE_KEYS]
    problems = [
        Problem(str(key), f"unknown key; {did_you_mean(key, STACK_FILE_KEYS)}settings go under config") for key in unknown
    ]
    if found.config is None and not any(nearest(key, STACK_FILE_KEYS) == "config" for key in unknown):
        problems.append(Problem("config", "is missing; give the mapping of all settings"))
    if problems or found.config is None:
        raise SettingsError(source, problems)
    return found.config


def _document(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the config by the keys of `Document`, and the problems of duplicate keys. JSON text is decoded."""
    document: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    problems = []
    for key, value in config.items():
        if key.startswith("pulumi:"):
            continue  # Pulumi's own key
        name = spec_stack_file.full_name(key).removeprefix(f"{PROJECT}:")
        if name in document:
            problems.append(Problem(name, f"is there as {spelled[name]} and as {key}, which are one key; keep one of them"))
            continue
        spelled[name] = key
        try:
            document[name] = (None if value == "" else value) if name in _PLAIN_TEXT_KEYS else spec_stack_file.decoded(value)
        except Unreadable as error:
            problems.append(Problem(name, str(error)))
    return document, problems


def _in_file_order(problems: list[Problem]) -> list[Problem]:
    """Return the problems in the order of the sections, without duplicates."""
    sections = [field.alias or name for name, field in Document.model_fields.items()]

    def order(problem: Problem) -> int:
        section = problem.path.partition(".")[0].partition("[")[0]
        return sections.index(section) if section in sections else len(sections)

    return sorted(dict.fromkeys(problems), key=order)
