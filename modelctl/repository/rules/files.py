"""Check that the release has the files that the config names and the backend loads.

A version directory without its model file is the worst case: the python backend then hangs for ever while loading
(docs/facts/triton-server.md#missing-model-file).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.backends import backend_of, is_ensemble, model_file_of, runs_tensorrt_llm
from modelctl.repository.problems import Problem
from modelctl.repository.rules import environments, golden
from modelctl.repository.rules.environments import MODEL_DIRECTORY

LARGEST_PYTHON_BYTES = 4 * 1024**2
_CONFIG = "config.pbtxt"
_LONGEST_SHOWN = 100
_LONGEST_NAME_BYTES = 255
"""Longest name of a file or directory on the disk to which Triton copies it."""
FETCHED_RELEASE = "/models/current"
"""The directory on the pods of a release on their disks (`models.access: local`). It is the same for every release."""
_NAMES_A_FILE = re.compile(r"(?!.*model_path$)(^|.*[^a-z])(file|filename|path)s?", re.IGNORECASE)
"""Parameter names that denote a file.

`gpt_model_path` and similar names denote directories of engines (TensorRT-LLM), which may be in the image.
"""
_NAMES_A_PLACE = re.compile(r"(^|.*[^a-z])(file|filename|path|dir|directory|folder)s?", re.IGNORECASE)


@dataclass(frozen=True)
class Released:
    """The released and the left out files of the model in `directory`, by paths relative to it."""

    directory: Path
    files: frozenset[Path]
    left_out: frozenset[Path]

    def has(self, path: Path) -> bool:
        """Return whether the file, or a file of the directory, is released."""
        return path in self.files or any(path in file.parents for file in self.files)

    def missing(self, path: Path) -> str | None:
        """Return why a file in the config is not released. None if it is, or if another rule reports it."""
        if self.has(path):
            return None
        if any(left == path or left in path.parents for left in self.left_out):
            return "left out of the release, as its name begins with a dot or is that of a backup or cache; rename it"
        try:
            return None if (self.directory / path).is_file() else "missing"
        except OSError:  # the path is too long
            return "missing"


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= _LONGEST_SHOWN else f'"{name[:_LONGEST_SHOWN]}…"'


def place_problem(name: str) -> str | None:
    """Return why a file name in a config leads out of its model or is ambiguous. None if it is right."""
    if any(not character.isprintable() for character in name):
        return "has a character that no name of a file has"
    if "\\" in name:
        return "has a backslash; directories are separated by /"
    if not PurePosixPath(name).parts:
        return "is no name of a file"
    if (longest := max(len(part.encode()) for part in PurePosixPath(name).parts)) > _LONGEST_NAME_BYTES:
        return f"has a name of {longest} bytes in it; a file's has at most {_LONGEST_NAME_BYTES}"
    if name.startswith("/"):
        return "is absolute; it has to be in the model's directory, and relative to it"
    if ".." in PurePosixPath(name).parts:
        return "leads out with ..; it has to be in the model's directory"
    return None


def served_path_problem(path: str, repository: Path) -> str | None:
    """Return why an absolute path below /models is not in the release as pods have it. None for other paths."""
    if not path.startswith("/models/"):
        return None
    try:
        inner = PurePosixPath(path).relative_to(FETCHED_RELEASE)
    except ValueError:
        return (
            f"is not where pods have a release; they have it at {FETCHED_RELEASE}/<model>/<version>/ (models.access: local)"
        )
    if not inner.parts or not (repository / inner).exists():
        return f"is not in the release, which has no {inner}"
    return None


def check_config_files(config: ModelConfig, released: Released, versions: Sequence[int]) -> Iterator[Problem]:
    """Yield files that the config names or the backend expects, and that the release lacks."""
    path = released.directory / _CONFIG
    for version in versions:
        yield from _model_files(config, released, version)
    for output in config.output:
        name = output.label_filename
        if name and (wrong := place_problem(name)):
            yield Problem(path, f"label_filename: {_quoted(name)} {wrong}")
        elif name and (wrong := released.missing(Path(name))):
            yield Problem(released.directory / name, f"{wrong}; output {output.name} takes its labels from it")
    for index, state in enumerate(config.sequence_batching.state):
        for number, initial in enumerate(state.initial_state):
            where = f"sequence_batching.state[{index}].initial_state[{number}].data_file"
            if message := _in_folder("initial_state", initial.data_file, released):
                yield Problem(path, f"{where}: {message}")
    for index, sample in enumerate(config.model_warmup):
        for name in sorted(sample.inputs):
            where = f"model_warmup[{index}].inputs[{name}].input_data_file"
            if message := _in_folder("warmup", sample.inputs[name].input_data_file, released):
                yield Problem(path, f"{where}: {message}")
    if config.runtime and (wrong := place_problem(config.runtime)):
        yield Problem(path, f"runtime: {_quoted(config.runtime)} {wrong}")
    for name in config.model_operations.op_library_filename:
        if wrong := place_problem(name) or released.missing(Path(name)):
            yield Problem(path, f"model_operations.op_library_filename: {_quoted(name)} {wrong}")
    yield from (Problem(path, message) for message in _parameters(config, released))


def _in_folder(folder: str, name: str, released: Released) -> str | None:
    if not name:
        return None
    if wrong := place_problem(name):
        return f"{_quoted(name)} {wrong}"
    wrong = released.missing(Path(folder, name))
    place = f"{released.directory.name}/{folder}/{name}"
    return f"there is no {place}" if wrong == "missing" else f"{place} is {wrong}" if wrong else None


def _model_files(config: ModelConfig, released: Released, version: int) -> Iterator[Problem]:
    here = released.directory / str(version)
    if is_ensemble(config):
        if not released.has(Path(str(version))):
            yield Problem(
                here,
                "empty; an ensemble needs its version directory, and neither git nor S3 keeps an empty one: "
                "put a file into it, for example .keep",
            )
    elif config.cc_model_filenames:
        for name in sorted(set(config.cc_model_filenames.values())):
            yield from _model_file(released, version, name, "cc_model_filenames")
    elif config.default_model_filename:
        yield from _model_file(released, version, config.default_model_filename, "default_model_filename")
    elif backend := backend_of(config):
        expected = model_file_of(config)
        if expected:
            yield from _model_file(released, version, expected, f"the {backend} backend")
        elif not _beside_golden(here):
            yield Problem(
                here,
                f"empty; the {backend} backend needs its version directory, and neither git nor S3 keeps an empty one: "
                "put its model there, or a file like .keep",
            )


def _model_file(released: Released, version: int, name: str, wanted_by: str) -> Iterator[Problem]:
    if wrong := "is empty" if not name else place_problem(name):
        yield Problem(released.directory / _CONFIG, f"{wanted_by}: {_quoted(name)} {wrong}")
        return
    path = released.directory / str(version) / name
    if wrong := released.missing(Path(str(version), name)):
        others = ", ".join(_beside_golden(path.parents[len(Path(name).parts) - 1])) or "nothing"
        yield Problem(path, f"{wrong}; {wanted_by} loads it, and {version}/ holds {others}")
    elif path.is_dir() and path.suffix == ".py":
        yield Problem(path, f"a directory; {wanted_by} loads a file")
    elif path.is_file() and path.stat().st_size == 0:
        yield Problem(path, "empty; a model file cannot be")


def _beside_golden(version_directory: Path) -> list[str]:
    """Return the names of possible model files: all except the golden inference."""
    return sorted(path.name for path in version_directory.iterdir() if path.name != golden.FILE)


def _parameters(config: ModelConfig, released: Released) -> Iterator[str]:
    """Yield parameters whose file is not in the model. Directories in the image, which engines need, are accepted."""
    for key in sorted(config.parameters):
        value = config.parameters[key].string_value
        where = f"parameters[{key}]"
        if value.startswith(MODEL_DIRECTORY):
            name = value.removeprefix(MODEL_DIRECTORY).lstrip("/")
            if name and (wrong := place_problem(name)):
                yield f"{where}: {_quoted(value)} {wrong}"
            elif name and (wrong := released.missing(Path(name))):
                yield f"{where}: {released.directory.name}/{name} is {wrong}"
        elif key == environments.PARAMETER and value:
            right = f"put the archive there and write {MODEL_DIRECTORY}/<its name>"
            yield f"{where}: {_quoted(value)} is not in the model; {right}"
        elif value and _NAMES_A_PLACE.fullmatch(key) and (wrong := place_problem(value)):
            if served := served_path_problem(value, released.directory.parent):
                yield f"{where}: {_quoted(value)} {served}"
                continue
            absolute = value.startswith("/") and (runs_tensorrt_llm(config) or not _NAMES_A_FILE.fullmatch(key))
            if not absolute or ".." in PurePosixPath(value).parts:
                yield f"{where}: {_quoted(value)} {wrong}"


def check_python(path: Path, *, entry_point: bool) -> Iterator[Problem]:
    """Yield the syntax errors of a Python file; `entry_point`: the python backend loads it."""
    if path.suffix != ".py" or (size := path.stat().st_size) == 0:
        return
    if size > LARGEST_PYTHON_BYTES:
        yield Problem(path, f"{size} bytes of Python; at most {LARGEST_PYTHON_BYTES} are read, data belongs in other files")
        return
    content = path.read_bytes()
    try:
        tree = ast.parse(content, filename=str(path))
    except SyntaxError as error:
        yield Problem(path, f"not valid Python: {error.msg}", error.lineno, error.offset)
    except ValueError as error:
        yield Problem(path, f"not valid Python: {error}")
    except (RecursionError, MemoryError):
        yield Problem(path, "not valid Python: nested deeper than Python reads", _longest_line(content))
    else:
        if entry_point:
            yield from _python_model(path, tree)


def _longest_line(content: bytes) -> int:
    """Return the line with the most tokens. It contains the expression that is nested too deep."""
    counts: dict[int, int] = {}
    try:
        for token in tokenize.tokenize(io.BytesIO(content).readline):
            counts[token.start[0]] = counts.get(token.start[0], 0) + 1
    except (tokenize.TokenError, SyntaxError):
        pass
    return max(counts, key=counts.__getitem__, default=1)


def _python_model(path: Path, tree: ast.Module) -> Iterator[Problem]:
    for node in _run_at_import(tree.body):
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            if "execute" not in _names(node.body) and not node.bases and not node.decorator_list:
                yield Problem(path, "TritonPythonModel has no method execute(self, requests)", node.lineno)
            return
    if not {"TritonPythonModel", "*"} & _names(tree.body):
        yield Problem(path, "no class TritonPythonModel; the python backend needs it")


def _run_at_import(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module or class, also inside `if`, `try`, `with` and loops."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _run_at_import(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _run_at_import(handler.body)


def _names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that the statements define, assign or import; `*` means any name."""
    found: set[str] = set()
    for node in _run_at_import(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found
