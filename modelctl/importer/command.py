"""Run `modelctl import`. It makes a model directory from an external model, completely or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sized
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.importer import mlflow_model, mlflow_server, onnx_config
from modelctl.importer.mlflow_model import NotImported
from modelctl.repository import onnx_file
from modelctl.repository.configure import render
from modelctl.repository.load import model_name_problem, validate
from modelctl.repository.model import CONFIG_FILE
from modelctl.repository.onnx_file import NotOnnx, OnnxModel
from modelctl.repository.rules import onnx
from spec import reading
from spec.reading import Unreadable
from spec.wording import printable

_FILE = "model.onnx"
_COMMENT = """\
Made by `modelctl import` from what {source} says. Yours to change.
The queue is bounded: when it is full, the server answers UNAVAILABLE at once. Where a stack says nothing of this model, it
runs on the CPU; `device: gpu` in its models.serving makes that KIND_GPU."""


def import_model(source: Path, into: Path, name: str | None, max_batch_size: int | None) -> None:
    """Write `into`/`name` for an ONNX file or an MLflow directory. Print the lines for a stack file. Raises NotImported."""
    _say(*write_model(source, into, name, max_batch_size))


def write_model(source: Path, into: Path, name: str | None, max_batch_size: int | None) -> tuple[Path, onnx_config.Made]:
    """Write `into`/`name` for an ONNX file or an MLflow directory; return its path and config. Raises NotImported."""
    file = _onnx_file(source)
    model = _read(file)
    _refuse_links_out(source, file, model)
    name = _name_of(source) if name is None else name
    target = _target(into, name)
    try:
        made = onnx_config.config_of(model, max_batch_size)
    except onnx_config.CannotServe as error:
        raise NotImported("\n".join(f"{file}: {reason}" for reason in error.reasons)) from None
    try:
        into.mkdir(parents=True, exist_ok=True)
        _write(target, file, model, made.config)
    except OSError as error:
        raise NotImported(f"{target} cannot be made: {error.strerror or error}") from None
    return target, made


def import_from_server(uri: str, server: str | None, into: Path, name: str | None, max_batch_size: int | None) -> None:
    """Do as `import_model` with a model of an MLflow server, like `models:/NAME/VERSION`. Raises NotImported."""
    if server is None:
        raise NotImported(f"{printable(uri)}: on which MLflow server? Give --tracking-uri, or set MLFLOW_TRACKING_URI")
    name = mlflow_server.name_of(uri) if name is None else name
    try:
        _target(into, name)  # before any download
        # Next to the models, because the model may not fit into /tmp.
        beside = next(folder for folder in (into, *into.absolute().parents) if folder.is_dir())
        with tempfile.TemporaryDirectory(prefix=".import-", dir=beside) as folder:
            directory = Path(folder) / "model"
            mlflow_server.fetch(uri, server, directory)
            try:
                import_model(directory, into, name, max_batch_size)
            except NotImported as error:
                raise NotImported(str(error).replace(str(directory), uri)) from None
    except OSError as error:
        raise NotImported(f"{uri} cannot be copied: {error.strerror or error}") from None


def _target(into: Path, name: str) -> Path:
    """Return the directory for a new model. Raises NotImported if the name is invalid or taken."""
    if problem := model_name_problem(name):
        raise NotImported(f"{printable(name) or 'no name'}: {problem}; give one with --name")
    target = into / name
    if target.exists() or target.is_symlink():
        raise NotImported(
            f"{target} is there already; give another --name, or put the file of the new version into {target}/2/ yourself"
        )
    return target


def _onnx_file(source: Path) -> Path:
    if (source / mlflow_model.FILE).exists():
        return mlflow_model.onnx_file_of(source)
    if source.is_dir():
        raise NotImported(
            f"{source}: has no {mlflow_model.FILE}; name an .onnx file, or a directory that MLflow has made of a model"
        )
    return source


def _read(file: Path) -> OnnxModel:
    try:
        with reading.opened(file):  # a pipe or a device would look empty
            pass
        model = onnx_file.read(file)
    except NotOnnx as error:
        raise NotImported(f"{file}: not an ONNX model: {error}; copy or export it again") from None
    except Unreadable as error:
        raise NotImported(str(error)) from None
    if wrong := list(onnx.check_model(model)):
        raise NotImported("\n".join(f"{file}: {message}" for message in wrong))
    return model


def _refuse_links_out(source: Path, file: Path, model: OnnxModel) -> None:
    """Raise NotImported for each link out of the source's folder. A release would publish the linked file."""
    copied = {file.parent / name: f"the weights of tensor {tensor!r} are" for name, tensor in model.external.items()}
    folder = file.parent
    if source.is_dir():
        folder, copied[file] = source, "the model is"
    if outside := [
        f"{path}: {text} behind a link to {target}, outside of {folder}; replace the link with the file"
        for path, text in sorted(copied.items())
        if not (target := path.resolve()).is_relative_to(folder.resolve())
    ]:
        raise NotImported("\n".join(outside))


def _name_of(source: Path) -> str:
    """Return the name of the file. For `model.onnx` or a directory, the name of the directory."""
    resolved = source.resolve()
    return resolved.name if resolved.is_dir() else resolved.parent.name if resolved.stem == "model" else resolved.stem


def _write(target: Path, file: Path, model: OnnxModel, config: ModelConfig) -> None:
    """Build the directory next to its target, and move it there if a release would accept it. Raises NotImported and
    OSError."""
    with tempfile.TemporaryDirectory(prefix=".import-", dir=target.parent) as building:
        directory = Path(building) / target.name
        version = directory / "1"
        version.mkdir(parents=True)
        shutil.copyfile(file, version / _FILE)
        for name in sorted(model.external):
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.parent / name, version / name)
        (directory / CONFIG_FILE).write_text(render(config, _COMMENT.format(source=printable(file.name))), encoding="utf-8")
        if problems := validate(Path(building)):
            told = "\n".join(str(problem).replace(f"{building}/", f"{target.parent}/") for problem in problems)
            raise NotImported(f"nothing was made; a release would refuse it:\n{told}")
        directory.rename(target)


def _say(target: Path, made: onnx_config.Made) -> None:
    config = made.config
    batch = (
        f"batches of up to {config.max_batch_size}"
        if config.max_batch_size
        else "no batches: a size that does not vary is first"
    )
    print(f"{target}: {_counted(config.input, 'input')}, {_counted(config.output, 'output')}, {batch}")
    if made.open_outputs:
        print(
            f"the file leaves sizes of {', '.join(made.open_outputs)} open, and config.pbtxt has -1 there; where ONNX "
            f"Runtime finds them out, the server names them and refuses -1. Try it: python3 -m twin triton {target.parent}"
        )
    print(stack_lines(target.name))


def stack_lines(model: str) -> str:
    """Return the lines of a stack file that serve a model, with placeholders."""
    return (
        "in a stack file:\n  triton-eks:models:\n    serving:\n"
        f"      {model}: {{device: gpu, sloP95Ms: 100, expectedRate: 10, peakRate: 40}}  # yours"
    )


def _counted(tensors: Sized, noun: str) -> str:
    return f"{len(tensors)} {noun}{'' if len(tensors) == 1 else 's'}"
