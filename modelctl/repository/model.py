"""A model of a repository, as it is released."""

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
"""Where Triton looks for the config of `--model-config-name=<name>`; here the name is that of a stack."""


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
        return common_names(self.versions, self.files)

    @property
    def version_bytes(self) -> int:
        """Return the size of the files of the largest version that is served. Raises OSError."""
        sizes = dict.fromkeys(map(str, self.versions), 0)
        for file in self.files:
            if file.parts[0] in sizes and file.name != golden.FILE:
                sizes[file.parts[0]] += (self.directory / file).stat().st_size
        return max(sizes.values())

    @property
    def golden(self) -> Request | None:
        """Return the request of golden.json beside the version that answers requests which name none; None without it.

        Raises GoldenError and OSError.
        """
        path = self.directory / str(self.version) / golden.FILE
        return golden.Golden.parse(str(path), path.read_text(encoding="utf-8")) if path.is_file() else None

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
        return backends.places_itself(self.config)

    @property
    def on_cpu(self) -> bool:
        """Return whether it computes on the CPU in a pipeline on GPUs: Python code whose config does not place it on one."""
        kinds = {group.kind for group in self.config.instance_group}
        return self.backend == "python" and kinds.isdisjoint({ModelInstanceGroup.KIND_GPU, ModelInstanceGroup.KIND_MODEL})

    @property
    def backend(self) -> str:
        """Return what loads it: the backend's name, or `ensemble`."""
        return "ensemble" if backends.is_ensemble(self.config) else str(backends.backend_of(self.config))


def common_names(versions: Sequence[int], files: Sequence[Path]) -> frozenset[str]:
    """Return the names that lie in the directory of each of the versions."""
    names = [frozenset(path.name for path in files if path.parent == Path(str(version))) for version in versions]
    return frozenset.intersection(*names)
