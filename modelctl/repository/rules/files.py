"""The files of a model: what the server would look for, and what it would choke on.

A version directory without its model file is the worst of them: the python backend then hangs for ever while
loading (docs/facts/triton-server.md#missing-model-file).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.backends import DEFAULT_MODEL_FILES, backend_of, is_ensemble
from modelctl.repository.problems import Problem
from modelctl.repository.rules import golden

MAX_OBJECT_BYTES = 5 * 1024**4
"""S3's limit for one object."""


def check_model_files(config: ModelConfig, directory: Path, version: int) -> Iterator[Problem]:
    """Yield files that the config names or the backend expects, in the version that is released."""
    version_directory = directory / str(version)
    if is_ensemble(config):
        if not any(path.is_file() for path in version_directory.iterdir()):
            yield Problem(
                version_directory,
                "empty; an ensemble needs its version directory, and neither git nor S3 keeps an empty one: "
                "put a file into it, for example .keep",
            )
    elif config.cc_model_filenames:
        for name in sorted(set(config.cc_model_filenames.values())):
            yield from _model_file(version_directory, name, "cc_model_filenames")
    elif config.default_model_filename:
        yield from _model_file(version_directory, config.default_model_filename, "default_model_filename")
    elif backend := backend_of(config):
        expected = DEFAULT_MODEL_FILES[backend]
        if expected:
            yield from _model_file(version_directory, expected, f"the {backend} backend")
        elif not _beside_golden(version_directory):
            yield Problem(version_directory, f"empty; the {backend} backend needs its model here")
    for output in config.output:
        if output.label_filename and not (directory / output.label_filename).is_file():
            yield Problem(directory / output.label_filename, f"missing; output {output.name} takes its labels from it")


def _model_file(version_directory: Path, name: str, wanted_by: str) -> Iterator[Problem]:
    path = version_directory / name
    if not path.exists():
        others = ", ".join(_beside_golden(version_directory)) or "nothing"
        yield Problem(path, f"missing; {wanted_by} loads it, and {version_directory.name}/ holds {others}")
    elif path.is_file() and path.stat().st_size == 0:
        yield Problem(path, "empty; a model file cannot be")


def _beside_golden(version_directory: Path) -> list[str]:
    """Return what may be the model: everything but the inference that tests it."""
    return sorted(path.name for path in version_directory.iterdir() if path.name != golden.FILE)


def check_contents(path: Path, *, entry_point: bool) -> Iterator[Problem]:
    """Yield one file of the release: its size, and for Python its syntax; `entry_point`: a python backend loads
    it.
    """
    size = path.stat().st_size
    if size > MAX_OBJECT_BYTES:
        yield Problem(path, f"{size} bytes; an S3 object holds at most {MAX_OBJECT_BYTES} (5 TiB)")
        return
    if path.suffix != ".py" or size == 0:
        return
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        yield Problem(path, f"not valid Python: {error.msg}", error.lineno, error.offset)
    except ValueError as error:
        yield Problem(path, f"not valid Python: {error}")
    else:
        if entry_point:
            yield from _python_model(path, tree)


def _python_model(path: Path, tree: ast.Module) -> Iterator[Problem]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            if "execute" not in methods and not node.bases:
                yield Problem(path, "TritonPythonModel has no method execute(self, requests)", node.lineno)
            return
    imported = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    if not {"TritonPythonModel", "*"} & imported:
        yield Problem(path, "no class TritonPythonModel; the python backend needs it")
