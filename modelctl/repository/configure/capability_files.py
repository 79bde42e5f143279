"""Select model files for one GPU generation each by name: `model_cc86.plan` is for compute capability 8.6.

A TensorRT plan runs only on GPUs of the compute capability on which it was built
(docs/facts/triton-configuration.md#tensorrt-plans).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.backends import model_file_of


def files_by_capability(config: ModelConfig, names: Iterable[str]) -> dict[str, str]:
    """Return compute capability (`8.6`) to file, for `names` that are the model's default file with `_cc<digits>`."""
    default = model_file_of(config)
    if default is None:
        return {}
    stem, dot, suffix = default.rpartition(".")
    pattern = re.compile(rf"{re.escape(stem or suffix)}_cc(\d+)(\d){re.escape(dot + suffix) if stem else ''}")
    found = ((pattern.fullmatch(name), name) for name in names)
    return dict(sorted((f"{match[1]}.{match[2]}", name) for match, name in found if match))


def set_files(config: ModelConfig, files: Mapping[str, str]) -> None:
    """Set the model files of the config, by compute capability."""
    config.cc_model_filenames.clear()
    config.cc_model_filenames.update(files)
