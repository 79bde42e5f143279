"""A model repository on disk: its models, the versions of each that a release serves, and everything wrong
with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.repository import backends, engines, plans, textproto, tree
from modelctl.repository.configure import render
from modelctl.repository.configure.capability_files import files_by_capability
from modelctl.repository.onnx_file import OnnxModel
from modelctl.repository.problems import Problem, ValidationFailed
from modelctl.repository.rules import (
    asks,
    contents,
    ensembles,
    files,
    golden,
    one_config,
    onnx,
)
from modelctl.repository.rules import engines as engine_rules
from modelctl.repository.selection import RELEASE_FILE, Selection, read_selection
from spec import reading

CONFIG_FILE = "config.pbtxt"
CONFIGS_DIRECTORY = "configs"
"""Where Triton looks for the config of `--model-config-name=<name>`; here the name is that of a stack."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME = 128
_VERSION = re.compile(r"[1-9][0-9]*")
_LOOKS_LIKE_VERSION = re.compile(r"(?:v|ver|version)?[._ -]?\d+(?:[._]\d+)*", re.IGNORECASE)
_LARGEST_VERSION = 2**63 - 1
_TOP_LEVEL_FILES = frozenset({RELEASE_FILE, "README.md"})


@dataclass(frozen=True)
class Model:
    """One model of a release, its config completed by what only the release decides.

    `versions` are served, in this order; `files` are relative to `directory` and hold no other version's files. `left_out`
    is what lies beside them and is not released. `own_backends` are those that it may name beside NVIDIA's. `onnx` has what
    the files of the onnxruntime backend say, by their paths. `open`: its config leaves a queue without a bound, or its
    instances to the server, so that a stack has to have wants of it.
    """

    name: str
    directory: Path
    versions: tuple[int, ...]
    config: ModelConfig
    config_text: str
    files: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()
    own_backends: frozenset[str] = frozenset()
    onnx: Mapping[Path, OnnxModel] = field(default_factory=dict)
    open: bool = False

    @property
    def version(self) -> int:
        """Return the version that answers requests which name none."""
        return self.versions[-1]

    @property
    def others(self) -> tuple[int, ...]:
        """Return the versions that are served beside it."""
        return self.versions[:-1]

    @property
    def files_of_every_version(self) -> frozenset[str]:
        """Return the names that lie in the directory of each served version: what its one config may name."""
        return _common_names(self.versions, self.files)

    @property
    def tensorrt(self) -> tuple[str, ...]:
        """Return the versions of TensorRT that built its plans, as far as they say so."""
        if self.backend != "tensorrt":
            return ()
        found = (plans.built_with(self.directory / file) for file in self.files if len(file.parts) == 2)
        return tuple(sorted({version for version in found if version is not None}))

    @property
    def plans_of_unknown_versions(self) -> tuple[Path, ...]:
        """Return its plans whose headers do not say which TensorRT built them."""
        if self.backend != "tensorrt":
            return ()
        files = (self.directory / file for file in self.files if len(file.parts) == 2)
        return tuple(file for file in files if plans.is_plan(file) and plans.built_with(file) is None)

    @property
    def steps(self) -> tuple[str, ...]:
        """Return the models of an ensemble, each once."""
        return tuple(dict.fromkeys(step.model_name for step in self.config.ensemble_scheduling.step))

    @property
    def asks(self) -> tuple[str, ...]:
        """Return the models that it asks by itself, each once."""
        return asks.asked(self.config)

    @property
    def decoupled(self) -> bool:
        """Return whether its config says that a request has any number of responses."""
        return self.config.model_transaction_policy.decoupled

    @property
    def self_placed(self) -> bool:
        """Return whether it takes its GPUs by itself, or its backend does."""
        kinds = {group.kind for group in self.config.instance_group}
        return ModelInstanceGroup.KIND_MODEL in kinds or self.backend in backends.ENGINES

    @property
    def backend(self) -> str:
        """Return what loads it: the backend's name, or `ensemble`."""
        return "ensemble" if backends.is_ensemble(self.config) else str(backends.backend_of(self.config))


@dataclass
class _Draft:
    """A model while it is being read; None, or no versions, marks what could not be."""

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
    """Return every mistake in the repository, ordered by path and place; empty when it can be released as it is."""
    return _read(models_dir, decided=())[1]


def load(models_dir: Path, decided: Collection[str] = ()) -> list[Model]:
    """Return the models by name. Raises ValidationFailed with every mistake when there is any.

    `decided`: models whose queues and instances are decided elsewhere, so that their configs may leave them open.
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
    """Return what lies beside the models and is in no release, like `.git`. Raises OSError."""
    return [path for path in sorted(models_dir.iterdir()) if tree.is_left_out(path.name)]


def _read(models_dir: Path, decided: Collection[str]) -> tuple[dict[str, _Draft], list[Problem]]:
    if not models_dir.is_dir():
        return {}, [Problem(models_dir, "no such directory; it is the one that holds a directory per model")]
    names, problems = _models(models_dir)
    selection = read_selection(models_dir, names)
    problems += selection.problems
    drafts = {name: _read_model(models_dir, name, selection) for name in names}
    configs = [draft.config for draft in drafts.values() if draft.config is not None]
    # NVIDIA's Python models around one of TensorRT-LLM have no queues of their own: what they may hold is bounded where it
    # waits for the engine.
    queues = not any(map(backends.runs_tensorrt_llm, configs))
    for name, draft in drafts.items():
        _check_model(draft)
        if draft.config is not None:
            draft.left_open = tuple(one_config.left_open(draft.config, queues=queues))
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
        # Beside a wrong config, golden.json would be wrong in the same way.
        if not any(problem.path.is_relative_to(draft.directory) for problem in problems):
            problems += _golden_problems(draft)
    unique = dict.fromkeys(problems)
    return drafts, sorted(unique, key=lambda p: (str(p.path), p.line or 0, p.column or 0))


def _models(models_dir: Path) -> tuple[list[str], list[Problem]]:
    """Return the names of the models, and what is wrong with what lies beside them."""
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
    """Return why no model can have the name."""
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
    """Note what is wrong with the config and the files of a model."""
    directory = draft.directory
    if draft.config is not None:
        messages = one_config.check(draft.config, directory, draft.versions, draft.own_backends)
        draft.problems += [Problem(directory / CONFIG_FILE, message) for message in messages]
        released = files.Released(directory, frozenset(draft.files), frozenset(draft.left_out))
        draft.problems += files.check_config_files(draft.config, released, draft.versions)
        if backends.backend_of(draft.config) == "vllm":
            for version in draft.versions:
                draft.problems += engine_rules.check_vllm(draft.config, directory, version)
        draft.onnx, wrong_files = onnx.read_files(draft.config, released, draft.versions)
        draft.problems += wrong_files
    for relative in draft.files:
        wrong = list(contents.check(directory / relative))
        # What is no Python at all is not told twice.
        draft.problems += wrong or files.check_python(directory / relative, entry_point=relative in _entry_points(draft))


def _is_wanted(path: Path, versions: Sequence[int]) -> bool:
    """Return whether the release of these versions looks into a file or directory of the model."""
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
    """Set what the server must never choose by itself: the versions, and the plan that fits its GPU."""
    if not draft.versions:
        return
    added = draft.additions
    if not config.HasField("version_policy"):
        added.version_policy.specific.versions.extend(draft.versions)
    names = _common_names(draft.versions, draft.files)
    added.MergeFrom(engines.additions(config))
    if backend := backends.by_model_file(config, names):
        added.backend = backend
        config.backend = backend
    if not config.cc_model_filenames and backends.model_file_of(config) not in names:
        added.cc_model_filenames.update(files_by_capability(config, names))
    config.MergeFrom(added)


def _completed(text: str, added: ModelConfig) -> str:
    """Return the text as it is released."""
    if not added.ListFields():
        return text
    return f"{text.rstrip()}\n\n{render(added, 'Added by modelctl: what only the release knows.')}"


def _common_names(versions: Sequence[int], files: Sequence[Path]) -> frozenset[str]:
    names = [frozenset(path.name for path in files if path.parent == Path(str(version))) for version in versions]
    return frozenset.intersection(*names)


def _entry_points(draft: _Draft) -> set[Path]:
    if draft.config is None or backends.backend_of(draft.config) != "python":
        return set()
    return {Path(str(version)) / (draft.config.default_model_filename or "model.py") for version in draft.versions}
