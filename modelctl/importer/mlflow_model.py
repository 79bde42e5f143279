"""Read a model that MLflow stored in a directory: https://mlflow.org/docs/latest/ml/model/#storage-format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

FILE = "MLmodel"
_LARGEST_BYTES = 1024 * 1024
_TO_ONNX: Mapping[str, str] = {
    "sklearn": "export it with skl2onnx (zipmap=False) and log it with mlflow.onnx",
    "pytorch": "export it with torch.onnx.export and log it with mlflow.onnx, or serve TorchScript with the backend pytorch",
    "tensorflow": "export it with tf2onnx and log it with mlflow.onnx",
    "keras": "export it with tf2onnx and log it with mlflow.onnx",
    "xgboost": "export it with onnxmltools and log it with mlflow.onnx, or serve its file with the backend fil",
    "lightgbm": "export it with onnxmltools and log it with mlflow.onnx, or serve its file with the backend fil",
    "catboost": "save it in the format onnx (its own save_model) and log it with mlflow.onnx",
    "transformers": "export it with optimum and log it with mlflow.onnx, or serve it with the backend vllm",
    "sentence_transformers": "export it with optimum and log it with mlflow.onnx",
    "spark": "export it with onnxmltools and log it with mlflow.onnx",
    "python_function": "write a model.py for the backend python that calls it, with what it imports",
}
"""Flavour to the way to serve its models, the likeliest first."""


class NotImported(Failure):
    """A model cannot be imported; the text gives the reason and the remedy."""

    exit_code = NOT_TRIED


def onnx_file_of(directory: Path) -> Path:
    """Return the ONNX file of a model in an MLflow directory. Raises NotImported, also for models without an ONNX
    flavour."""
    place = directory / FILE
    try:
        document = yaml.safe_load(reading.text_file(place, _LARGEST_BYTES))
    except RecursionError:
        raise NotImported(f"{place}: not the YAML that MLflow writes: it is nested too deep; log the model again") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotImported(
            f"{place}: not the YAML that MLflow writes ({' '.join(str(error).split())}); log the model again"
        ) from None
    except Unreadable as error:
        raise NotImported(str(error)) from None
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict) or not flavors:
        raise NotImported(f"{place}: flavors: missing; it is to name how the model can be loaded. Log the model again")
    if "onnx" not in flavors:
        raise NotImported(f"{place}: {_refusal(flavors)}")
    onnx = flavors["onnx"]
    name = onnx.get("data") if isinstance(onnx, dict) else None
    if not isinstance(name, str) or not name:
        raise NotImported(f"{place}: flavors.onnx.data: missing; it is to name the ONNX file. Log the model again")
    if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts or not name.isprintable():
        raise NotImported(f"{place}: flavors.onnx.data: {name!r} leads out of the directory of the model")
    file = directory / name
    return file / "model.onnx" if file.is_dir() else file


def _refusal(flavors: Mapping[Any, Any]) -> str:
    named = ", ".join(sorted(map(str, flavors)))
    remedy = next(
        (_TO_ONNX[flavor] for flavor in _TO_ONNX if flavor in flavors), "export it to ONNX and log it with mlflow.onnx"
    )
    return f"flavors: it has {named}, and Triton loads none of them as MLflow keeps it; {remedy}"
