"""Read the serving settings of all stacks. They are `models.serving` of each stack file, with values derived from its
pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modelctl.repository.model import Model
from modelctl.repository.problems import Problem
from modelctl.store.manifest import Derived, ModelEntry
from spec import reading, stack_file
from spec.reading import Unreadable
from spec.settings import ModelServing, Settings, SettingsError, load, serving_digest
from spec.settings.chart_values import pod_values
from spec.settings.digest import compute_capabilities
from spec.settings.relations.tensorrt import Runtime, runtime
from spec.settings.release import Release
from spec.stack_file import StackFileError, decoded

MODELS_KEY = "triton-eks:models"
_PREFIX, _SUFFIX = "Pulumi.", ".yaml"


@dataclass(frozen=True)
class Stack:
    """A stack with serving settings for its models.

    `settings` are its file's, without a release. `compute_capabilities`: of the pool's GPUs (`8.6`). `server`: the version
    of its Triton server (`2.75.0`) in the NGC release `release` (`26.11`). `tensorrt`: the runtime of plans there. `access`:
    how its pods read releases. `tmp_mib`: the size of their /tmp. `openai`: the server is the OpenAI-compatible front end.
    """

    name: str
    file: Path
    settings: Settings
    serving: Mapping[str, ModelServing]
    compute_capabilities: tuple[str, ...]
    server: str
    release: str
    access: str
    tensorrt: Runtime | None
    tmp_mib: int
    openai: bool

    def digest(self, release: Release) -> str:
        """Return the digest of the serving settings, together with the settings that a release derived."""
        return serving_digest(with_release(self.settings, release))

    def serving_models(self, models: Mapping[str, Model]) -> Stack:
        """Return the stack with entries for the steps of these models' pipelines."""
        settings = with_release(self.settings, release_of(models, Derived()))
        return replace(self, settings=settings, serving=settings.models.serving)


def release_of(models: Mapping[str, Model | ModelEntry], derived: Derived) -> Release:
    """Return the facts that a stack file pins for these models, without the release's id."""
    return Release.model_construct(
        models={name: model.version for name, model in models.items()},
        others={name: model.others for name, model in models.items() if model.others},
        ensembles={name: model.steps for name, model in models.items() if model.steps},
        asks={name: model.asks for name, model in models.items() if model.asks},
        decoupled=tuple(name for name, model in models.items() if model.decoupled),
        self_placed=tuple(name for name, model in models.items() if model.self_placed),
        on_cpu=tuple(name for name, model in models.items() if model.on_cpu),
        instances=derived.instances,
        gpu_memory_mib=derived.gpu_memory_mib,
    )


def with_release(settings: Settings, release: Release) -> Settings:
    """Return the settings as if the stack pinned this release."""
    return settings.model_copy(update={"models": settings.models.with_release(release)})


def stack_name(file: Path) -> str | None:
    """Return `dev` for `stacks/Pulumi.dev.yaml`; None for a file with another name."""
    name = file.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    return name if name and file.name == f"{_PREFIX}{name}{_SUFFIX}" else None


def stack_files(directory: Path) -> list[Path]:
    """Return the stack files in a directory, sorted. Empty if it has none or does not exist."""
    return sorted(file for file in directory.glob(f"{_PREFIX}*{_SUFFIX}") if stack_name(file))


def read_stacks(directory: Path) -> tuple[list[Stack], list[Problem]]:
    """Return the stacks in `directory` that have serving settings, and all problems of their files."""
    stacks: list[Stack] = []
    problems: list[Problem] = []
    for file in stack_files(directory):
        stack, wrong = read_stack(file)
        problems += wrong
        if stack is not None:
            stacks.append(stack)
    return stacks, problems


def read_stack(file: Path) -> tuple[Stack | None, list[Problem]]:
    """Return the stack of one file. None if it has no serving settings or has problems.

    The pinned release and its candidate are ignored, because a release is made when they no longer fit the settings.
    """
    config, problems = _config(file)
    models = decoded(config.get(MODELS_KEY))
    name = stack_name(file)
    if problems or name is None or not isinstance(models, dict) or not models.get("serving"):
        return None, problems
    config[MODELS_KEY] = {key: value for key, value in models.items() if key not in {"release", "candidate"}}
    try:
        settings = load(config, name)
    except SettingsError as error:
        return None, [Problem(file, str(problem)) for problem in error.problems]
    return (
        Stack(
            name=name,
            file=file,
            settings=settings,
            serving=settings.models.serving,
            compute_capabilities=tuple(f"{capability:.1f}" for capability in compute_capabilities(settings)),
            server=settings.triton.ngc_release.server,
            release=settings.triton.version,
            access=settings.models.access,
            tensorrt=runtime(settings),
            tmp_mib=pod_values(settings.environment).tmp,
            openai=settings.triton.openai is not None,
        ),
        [],
    )


def _config(file: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return the mapping `config` of a stack file. Empty if it has none, as after `pulumi stack init`."""
    try:
        return dict(stack_file.read(reading.file(file)).config or {}), []
    except StackFileError as error:
        return {}, [Problem(file, mistake.problem, mistake.line, mistake.column) for mistake in error.mistakes]
    except Unreadable as error:
        return {}, [Problem(file, error.problem)]
