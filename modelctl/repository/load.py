"""Read a model repository from disk. The result has the versions that a release serves, and all mistakes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository import backends, engines, textproto, tree
from modelctl.repository.configure import render
from modelctl.repository.configure.capability_files import files_by_capability
from modelctl.repository.model import CONFIG_FILE, CONFIGS_DIRECTORY, Model, common_names
from modelctl.repository.onnx_file import OnnxModel
from modelctl.repository.problems import Problem, ValidationFailed
from modelctl.repository.rules import asks, contents, ensembles, environments, files, golden, onnx
from modelctl.repository.rules import config as config_rules
from modelctl.repository.rules import engines as engine_rules
from modelctl.repository.selection import RELEASE_FILE, Selection, read_selection
from spec import reading
from spec.settings.pipelines import steps_without_entry

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME = 128
_VERSION = re.compile(r"[1-9][0-9]*")
_LOOKS_LIKE_VERSION = re.compile(r"(?:v|ver|version)?[._ -]?\d+(?:[._]\d+)*", re.IGNORECASE)
_LARGEST_VERSION = 2**63 - 1
_TOP_LEVEL_FILES = frozenset({RELEASE_FILE, "README.md"})


@dataclass
class _Draft:
    """A model while it is read. None or empty fields mark parts that could not be read."""

    directory: Path
    versions: tuple[int, ...] = ()
    config: ModelConfig | None = None
    config_text: str = ""
    additions: ModelConfig = field(default_factory=ModelConfig)
    files: tuple[Path, ...] = ()
    left_out: tuple[Path, ...] = ()
    own_backends: frozenset[str] = frozenset()
    onnx: dict[Path, OnnxModel] = field(default_factory=dict)
    left_open: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)


def validate(models_dir: Path) -> list[Problem]:
    """Return all mistakes in the repository, sorted by path and place. Empty if it can be released."""
    return _read(models_dir, decided=())[1]


def load(models_dir: Path, decided: Collection[str] = ()) -> list[Model]:
    """Return the models sorted by name. Raises ValidationFailed with all mistakes.

    `decided`: models whose queues and instances are set elsewhere, so their configs may leave them open.
    """
    drafts, problems = _read(models_dir, decided)
    if problems:
        raise ValidationFailed(problems)
    models = []
    for name, draft in drafts.items():
        if draft.config is None or not draft.versions:
            raise AssertionError(f"{name} has neither a problem nor a config and version")
        text = _completed(draft.config_text, draft.additions)
        models.append(
            Model(
                name,
                draft.directory,
                draft.versions,
                draft.config,
                text,
                files=draft.files,
                left_out=draft.left_out,
                own_backends=draft.own_backends,
                onnx=draft.onnx,
                open=bool(draft.left_open),
            )
        )
    return models


def left_out_beside(models_dir: Path) -> list[Path]:
    """Return the entries next to the models that are in no release, like `.git`. Raises OSError."""
    return [path for path in sorted(models_dir.iterdir()) if tree.is_left_out(path.name)]


def _read(models_dir: Path, decided: Collection[str]) -> tuple[dict[str, _Draft], list[Problem]]:
    if not models_dir.is_dir():
        return {}, [Problem(models_dir, "no such directory; it is the one that holds a directory per model")]
    names, problems = _models(models_dir)
    selection = read_selection(models_dir, names)
    problems += selection.problems
    drafts = {name: _read_model(models_dir, name, selection) for name in names}
    configs = [draft.config for draft in drafts.values() if draft.config is not None]
    # NVIDIA's Python models around a TensorRT-LLM model need no bounded queues, because requests wait for the engine in a
    # bounded queue.
    queues = not any(map(backends.runs_tensorrt_llm, configs))
    decided = _with_steps(decided, drafts)
    for name, draft in drafts.items():
        _check_model(draft)
        if draft.config is not None:
            draft.left_open = tuple(config_rules.left_open(draft.config, queues=queues))
        if name not in decided:
            path, instead = draft.directory / CONFIG_FILE, f"or give {name} an entry in models.serving of each stack"
            draft.problems += [Problem(path, f"{message}, {instead}") for message in draft.left_open]
    peers = {name: ensembles.Peer(draft.config, draft.versions) for name, draft in drafts.items()}
    for name, draft in drafts.items():
        problems += draft.problems
        if draft.config is not None:
            path = draft.directory / CONFIG_FILE
            problems += [Problem(path, message) for message in asks.check(name, draft.config, drafts)]
        if draft.config is not None and backends.is_ensemble(draft.config):
            path = draft.directory / CONFIG_FILE
            problems += [Problem(path, message) for message in ensembles.check(name, draft.config, peers)]
    for draft in drafts.values():
        # If the config is wrong, golden.json would be wrong in the same way.
        if not any(problem.path.is_relative_to(draft.directory) for problem in problems):
            problems += _golden_problems(draft)
    unique = dict.fromkeys(problems)
    return drafts, sorted(unique, key=lambda p: (str(p.path), p.line or 0, p.column or 0))


def _with_steps(decided: Collection[str], drafts: Mapping[str, _Draft]) -> set[str]:
    """Return these models and the steps of their pipelines, which share their settings."""
    needed = {
        name: (*(step.model_name for step in draft.config.ensemble_scheduling.step), *asks.asked(draft.config))
        for name, draft in drafts.items()
        if draft.config is not None
    }
    own = [name for name, draft in drafts.items() if draft.config is not None and backends.places_itself(draft.config)]
    return {*decided, *(step for name in decided for step in steps_without_entry(name, needed, decided, own))}


def _models(models_dir: Path) -> tuple[list[str], list[Problem]]:
    """Return the names of the models, and the problems of the entries next to them."""
    try:
        paths = [path for path in sorted(models_dir.iterdir()) if not tree.is_left_out(path.name)]
    except OSError as error:
        return [], [Problem(models_dir, f"cannot be read: {error.strerror or error}")]
    names: list[str] = []
    problems = list(tree.alike(paths))
    for path in paths:
        if path.is_dir() and path.name not in _TOP_LEVEL_FILES:
            wrong = tree.link_problem(models_dir, path) if path.is_symlink() else None
            if wrong is None and (message := model_name_problem(path.name)):
                wrong = Problem(path, message)
            if wrong is None:
                names.append(path.name)
            else:
                problems.append(wrong)
        elif path.is_symlink() and not path.exists() and path.name != RELEASE_FILE:
            problems.append(Problem(path, f"a link to {path.readlink()}, where nothing is; remove it"))
        elif path.name not in _TOP_LEVEL_FILES or (path.is_dir() and path.name != RELEASE_FILE):
            message = "belongs to no model; a model's files lie in <model>/ and <model>/<version>/"
            problems.append(Problem(path, message if path.is_file() else "neither a file nor a directory"))
    if not paths or all(path.name in _TOP_LEVEL_FILES for path in paths):
        problems.append(Problem(models_dir, "holds no model; a model is a directory with a config.pbtxt"))
    return names, problems


def model_name_problem(name: str) -> str | None:
    """Return why the name is invalid for a model; None if it is valid."""
    if not _NAME.fullmatch(name):
        return "not a name for a model; letters, digits, '.', '_' and '-', no leading punctuation"
    if len(name) > _LONGEST_NAME:
        return f"a name of {len(name)} characters; a model's has at most {_LONGEST_NAME}"
    return None


def _read_model(models_dir: Path, name: str, selection: Selection) -> _Draft:
    draft = _Draft(models_dir / name)
    directory = draft.directory
    available = _versions(directory, draft.problems)
    draft.versions = selection.versions_of(name, available, draft.problems)
    found = tree.read(models_dir, directory, wanted=lambda path: _is_wanted(path, draft.versions))
    draft.problems += found.problems
    draft.files = tuple(path for path in found.files if path != Path(CONFIG_FILE))
    draft.left_out = tuple(found.left_out)
    if os.path.lexists(directory / CONFIGS_DIRECTORY):
        message = "is made by modelctl, a config per stack from its models.serving; remove this directory"
        draft.problems.append(Problem(directory / CONFIGS_DIRECTORY, message))
    if Path(CONFIG_FILE) in found.files or not os.path.lexists(directory / CONFIG_FILE):
        _read_config(draft)
    elif (directory / CONFIG_FILE).is_dir():
        draft.problems.append(Problem(directory / CONFIG_FILE, "a directory; it is to be the file with the model's config"))
    draft.own_backends = selection.backends | backends.in_release(draft.files)
    if draft.config is not None:
        _complete(draft, draft.config)
    return draft


def _check_model(draft: _Draft) -> None:
    """Record the problems of the config and the files of a model."""
    directory = draft.directory
    if draft.config is not None:
        messages = config_rules.check(draft.config, directory, draft.versions, draft.own_backends)
        draft.problems += [Problem(directory / CONFIG_FILE, message) for message in messages]
        released = files.Released(directory, frozenset(draft.files), frozenset(draft.left_out))
        draft.problems += files.check_config_files(draft.config, released, draft.versions)
        if backends.backend_of(draft.config) == "vllm":
            for version in draft.versions:
                draft.problems += engine_rules.check_vllm(draft.config, directory, version)
        draft.onnx, wrong_files = onnx.read_files(draft.config, released, draft.versions)
        draft.problems += wrong_files
    environment = None if draft.config is None else environments.archive_of(draft.config, directory)
    for relative in draft.files:
        wrong = list(contents.check(directory / relative, environment=directory / relative == environment))
        # A file that is not Python at all is reported once.
        draft.problems += wrong or files.check_python(directory / relative, entry_point=relative in _entry_points(draft))


def _is_wanted(path: Path, versions: Sequence[int]) -> bool:
    """Return whether the release of these versions reads a file or directory of the model."""
    if path == Path(CONFIGS_DIRECTORY):
        return False
    return path.parent != Path() or not _VERSION.fullmatch(path.name) or int(path.name[:20]) in versions


def _versions(directory: Path, problems: list[Problem]) -> list[int]:
    names = sorted(path.name for path in directory.iterdir() if path.is_dir())
    versions = []
    for name in names:
        if _VERSION.fullmatch(name) and (len(name) > 19 or int(name) > _LARGEST_VERSION):
            problems.append(Problem(directory / name, f"not a version, the server has none beyond {_LARGEST_VERSION}"))
        elif _VERSION.fullmatch(name):
            versions.append(int(name))
        elif _LOOKS_LIKE_VERSION.fullmatch(name):
            problems.append(Problem(directory / name, "not a version, the server ignores it; versions are named 1, 2, 3 …"))
    if not versions:
        problems.append(Problem(directory, "has no version; the model's files belong in a directory named 1"))
    return sorted(versions)


def _read_config(draft: _Draft) -> None:
    path = draft.directory / CONFIG_FILE
    if not os.path.lexists(path):
        draft.problems.append(Problem(path, "missing; the server completes no config by itself here"))
        return
    if wrong := list(contents.check(path)):
        draft.problems += wrong
        return
    try:
        draft.config_text = reading.text(reading.file(path, textproto.LARGEST_BYTES))
    except reading.Unreadable as error:
        draft.problems.append(Problem(path, error.problem, error.line, error.column))
        return
    if places := engine_rules.unfilled(path, draft.config_text):
        draft.problems += places
        return
    draft.config, problems = textproto.parse(path, draft.config_text)
    draft.problems += problems


def _golden_problems(draft: _Draft) -> list[Problem]:
    if draft.config is None:
        return []
    folders = [draft.directory / str(version) for version in draft.versions]
    return [Problem(folder / golden.FILE, message) for folder in folders for message in golden.check(draft.config, folder)]


def _complete(draft: _Draft, config: ModelConfig) -> None:
    """Set the versions and the plan that fits the GPU. The server must not choose these by itself."""
    if not draft.versions:
        return
    added = draft.additions
    if not config.HasField("version_policy"):
        added.version_policy.specific.versions.extend(draft.versions)
    names = common_names(draft.versions, draft.files)
    added.MergeFrom(engines.additions(config))
    if backend := backends.by_model_file(config, names):
        added.backend = backend
        config.backend = backend
    if not config.cc_model_filenames and backends.model_file_of(config) not in names:
        added.cc_model_filenames.update(files_by_capability(config, names))
    config.MergeFrom(added)


def _completed(text: str, added: ModelConfig) -> str:
    if not added.ListFields():
        return text
    return f"{text.rstrip()}\n\n{render(added, 'Added by modelctl: what only the release knows.')}"


def _entry_points(draft: _Draft) -> set[Path]:
    if draft.config is None or backends.backend_of(draft.config) != "python":
        return set()
    return {Path(str(version)) / (draft.config.default_model_filename or "model.py") for version in draft.versions}
