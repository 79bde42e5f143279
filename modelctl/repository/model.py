"""A model of a repository in its released form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.repository import backends, golden, plans
from modelctl.repository.golden import Request
from modelctl.repository.onnx_file import OnnxModel
from modelctl.repository.rules import asks

CONFIG_FILE = "config.pbtxt"
CONFIGS_DIRECTORY = "configs"
"""Triton reads the config of `--model-config-name=<name>` from this directory; the name is the stack's."""


@dataclass(frozen=True)
class Model:
    """One model of a release, with its config completed by the release.

    `versions` are served, in this order. `files` are relative to `directory`; other versions' files are left out.
    `left_out`: the entries next to them that are not released. `own_backends`: the backends besides NVIDIA's that the model
    may name. `onnx`: the descriptions of the onnxruntime backend's files, by path. `open`: the config leaves a queue without
    a bound, or its instances to the server, so a stack must have settings for it.
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
        """Return the version that answers requests without a version."""
        return self.versions[-1]

    @property
    def others(self) -> tuple[int, ...]:
        """Return the versions that are served in addition to `version`."""
        return self.versions[:-1]

    @property
    def files_of_every_version(self) -> frozenset[str]:
        """Return the file names that exist in every served version's directory. Only these may be in the config."""
        return common_names(self.versions, self.files)

    @property
    def version_bytes(self) -> int:
        """Return the size in bytes of the files of the largest served version. Raises OSError."""
        sizes = dict.fromkeys(map(str, self.versions), 0)
        for file in self.files:
            if file.parts[0] in sizes and file.name != golden.FILE:
                sizes[file.parts[0]] += (self.directory / file).stat().st_size
        return max(sizes.values())

    @property
    def golden(self) -> Request | None:
        """Return the request in golden.json of the version that answers requests without a version. None without it.

        Raises GoldenError and OSError.
        """
        path = self.directory / str(self.version) / golden.FILE
        return golden.Golden.parse(str(path), path.read_text(encoding="utf-8")) if path.is_file() else None

    @property
    def tensorrt(self) -> tuple[str, ...]:
        """Return the TensorRT versions that built the model's plans, if the plans contain them."""
        if self.backend != "tensorrt":
            return ()
        found = (plans.built_with(self.directory / file) for file in self.files if len(file.parts) == 2)
        return tuple(sorted({version for version in found if version is not None}))

    @property
    def plans_of_unknown_versions(self) -> tuple[Path, ...]:
        """Return the plans whose headers do not contain a TensorRT version."""
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
        """Return the models that this model calls by itself, each once."""
        return asks.asked(self.config)

    @property
    def decoupled(self) -> bool:
        """Return whether the config allows any number of responses per request."""
        return self.config.model_transaction_policy.decoupled

    @property
    def self_placed(self) -> bool:
        """Return whether the model or its backend chooses its GPUs by itself."""
        return backends.places_itself(self.config)

    @property
    def on_cpu(self) -> bool:
        """Return whether it is Python code without a GPU. Such a step of a GPU pipeline computes on the CPU."""
        kinds = {group.kind for group in self.config.instance_group}
        return self.backend == "python" and kinds.isdisjoint({ModelInstanceGroup.KIND_GPU, ModelInstanceGroup.KIND_MODEL})

    @property
    def backend(self) -> str:
        """Return the backend's name, or `ensemble`."""
        return "ensemble" if backends.is_ensemble(self.config) else str(backends.backend_of(self.config))


def common_names(versions: Sequence[int], files: Sequence[Path]) -> frozenset[str]:
    """Return the names that exist in the directory of each version."""
    names = [frozenset(path.name for path in files if path.parent == Path(str(version))) for version in versions]
    return frozenset.intersection(*names)
