"""A model release as pinned in the stack file: `triton-eks:models.release` and a candidate's release."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, ClassVar

from pydantic import Field

from spec.names import release_label
from spec.problem import Problem
from spec.settings.fields import ModelName, ReleaseId, ServingDigest, TensorrtVersion
from spec.settings.kind import between
from spec.settings.rule import Place, rule
from spec.settings.section import Section
from spec.wording import did_you_mean, one_of

LARGEST_TOLERANCE = 0.5
"""The largest tolerance in golden.json. With 1, zeros would match any result."""
ASSUMED_BATCH_SIZE = 8
"""The batch size of a model if neither the stack nor the release has one; the sample models use the same."""

_Version = Annotated[int, between(1, 999_999_999, "for a version")]


class Release(Section):
    """The model release that Triton serves, an immutable prefix of the bucket. `modelctl pin` writes it."""

    guide: ClassVar[str] = "docs/serving.md#releases"

    id: ReleaseId = Field(description="the id that `modelctl release` printed")
    bytes: Annotated[int, between(1, 10**15, "bytes")] = Field(description="the sum of the object sizes")
    models: Annotated[dict[ModelName, _Version], Field(min_length=1)] = Field(
        description="the models and the version of each, like {resnet50: 1}"
    )
    others: dict[ModelName, Annotated[tuple[_Version, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by model, lower versions that are served beside the one in `models`, which answers requests that name "
        "none; without it: one version of each",
    )
    ensembles: dict[ModelName, Annotated[tuple[ModelName, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by ensemble, the models of its steps; without it: the release says of none that it is an ensemble",
    )
    asks: dict[ModelName, Annotated[tuple[ModelName, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by model, the models that it asks by itself inside of its server, as its config.pbtxt names them; "
        "without it: the release says of none that it asks others",
    )
    decoupled: tuple[ModelName, ...] = Field(
        default=(),
        description="the models whose config.pbtxt says that a request has any number of responses; without it: those of "
        "models.serving that say so",
    )
    self_placed: tuple[ModelName, ...] = Field(
        default=(),
        description="the models that take the GPUs of a pod by themselves (KIND_MODEL, vLLM, TensorRT-LLM), whose instances "
        "are not per GPU; without it: none",
    )
    on_cpu: tuple[ModelName, ...] = Field(
        default=(),
        description="the Python models that compute on the CPU in a pipeline with device: gpu, because their config.pbtxt "
        "does not say KIND_GPU; without it: none",
    )
    tensorrt: dict[ModelName, Annotated[tuple[TensorrtVersion, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by model, the versions of TensorRT that built its plans; without it: none says one",
    )
    batches: dict[ModelName, Annotated[int, between(0, 2**31 - 1, "requests in a batch, 0 for none")]] = Field(
        default_factory=dict,
        description="by model, max_batch_size of its config.pbtxt, 0 where each request is a batch; counts where "
        f"models.serving has no maxBatchSize; without it: {ASSUMED_BATCH_SIZE}",
    )
    instances: dict[ModelName, Annotated[int, between(1, 64, "instances")]] = Field(
        default_factory=dict,
        description="by model, the instances that its config got because models.serving gives none; without it: 1",
    )
    gpu_memory_mib: dict[ModelName, Annotated[int, between(1, 1_048_576, "MiB")]] = Field(
        default_factory=dict,
        description="by model on a GPU whose entry in models.serving gives no gpuMemoryMiB, its estimate from the size of "
        "its files; without it: none is known",
    )
    engines: tuple[ModelName, ...] = Field(
        default=(),
        description="the models for which ONNX Runtime builds TensorRT engines when a pod starts, which may take "
        "startup.secondsPerEngine of helm-values/triton for each instance; without it: none",
    )
    serving: ServingDigest | None = Field(
        default=None,
        description="the digest of the models.serving that its configs were made from; without it: the release was made "
        "without models.serving",
    )
    previous: ReleaseId | None = Field(
        default=None,
        description="the release that this one replaced, to which `modelctl rollback` returns; without it: there is none",
    )

    @property
    def label(self) -> str:
        """Return the short form of `id`."""
        return release_label(self.id)

    @rule
    def _names_differ(self, at: Place) -> Iterator[Problem]:
        """Refuse two models whose names differ only in case."""
        yield from names_alike(at, "models", self.models)

    @rule
    def _others_are_of_the_release(self, at: Place) -> Iterator[Problem]:
        """Require other versions that are lower than the served version, and of models of the release."""
        for model, others in self.others.items():
            if model not in self.models:
                near = did_you_mean(model, self.models)
                yield at.problem(
                    f"others.{model}", f"release {self.label} has no such model; {near}it has {one_of(self.models)}"
                )
            elif len(set(others)) < len(others):
                yield at.problem(f"others.{model}", "a version is listed twice; list each once")
            elif max(others) >= self.models[model]:
                yield at.problem(
                    f"others.{model}",
                    f"{max(others)} is not lower than {self.models[model]}, which answers requests that name no version; "
                    f"run `python -m modelctl release … --pin stacks/Pulumi.{at.stack}.yaml`, which writes both",
                )

    @rule
    def _what_is_said_of_models_is_of_the_release(self, at: Place) -> Iterator[Problem]:
        """Require that ensembles, their steps and all other listed models are in the release, each once."""
        lists = {f"ensembles.{name}": steps for name, steps in self.ensembles.items()}
        lists |= {f"asks.{name}": asked for name, asked in self.asks.items()}
        lists |= {"decoupled": self.decoupled, "selfPlaced": self.self_placed}
        lists |= {"onCpu": self.on_cpu, "engines": self.engines}
        by_model: dict[str, Mapping[str, object]] = {
            "ensembles": self.ensembles,
            "asks": self.asks,
            "tensorrt": self.tensorrt,
            "batches": self.batches,
            "instances": self.instances,
            "gpuMemoryMiB": self.gpu_memory_mib,
        }
        named = [(f"{key}.{name}", name) for key, by in by_model.items() for name in by]
        named += [(f"{path}[{index}]", name) for path, names in lists.items() for index, name in enumerate(names)]
        for path, name in named:
            if name not in self.models:
                near = did_you_mean(name, self.models)
                yield at.problem(path, f"release {self.label} has no model '{name}'; {near}it has {one_of(self.models)}")
        for path, names in lists.items():
            for index, name in enumerate(names):
                if name in names[:index]:
                    yield at.problem(f"{path}[{index}]", f"{name} is listed twice; list each model once")
        for name, steps in self.ensembles.items():
            if name in steps:
                yield at.problem(f"ensembles.{name}", "is a step of itself; name the models of its steps")
        yield from self._cycle_of_ensembles(at)
        for name, asked in self.asks.items():
            if name in asked:
                yield at.problem(f"asks.{name}", "is the model itself; name the others that it asks")

    def _cycle_of_ensembles(self, at: Place) -> Iterator[Problem]:
        """Report the first cycle of two or more ensembles. Triton loads an ensemble after its steps, so it would load none
        of them."""
        steps = {name: [step for step in steps if step != name] for name, steps in self.ensembles.items()}
        try:
            TopologicalSorter(steps).prepare()
        except CycleError as error:
            # Each ensemble of the cycle is a step of the next one, and the last is the first.
            last, *others = reversed(error.args[1])
            by_way_of = " and ".join(others[:-1])
            yield at.problem(f"ensembles.{last}", f"is a step of itself by way of {by_way_of}; leave one of them out")

    @rule
    def _previous_is_another(self, at: Place) -> Iterator[Problem]:
        """Require a previous release that is another release."""
        if self.previous == self.id:
            yield at.problem(
                "previous",
                f"{self.label} is the release itself, to which nothing would be rolled back; remove it, or name another",
            )


def names_alike(at: Place, key: str, models: Iterable[str]) -> Iterator[Problem]:
    """Report the models whose names differ only in case."""
    seen: dict[str, str] = {}
    for model in models:
        first = seen.setdefault(model.casefold(), model)
        if first != model:
            yield at.problem(
                f"{key}.{model}",
                f"differs from '{first}' in upper and lower case only, and no release has both; keep the one that is meant",
            )
