"""Generate the configs of a release for each stack: `<model>/configs/<stack>.pbtxt`.

A server that is started with `--model-config-name=<stack>` uses them, and config.pbtxt if a model has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.release.stacks import Stack, release_of, with_release
from modelctl.repository import backends
from modelctl.repository.configure import ConfigureError, Facts, accelerator, configure, derive, render, warmup
from modelctl.repository.model import CONFIG_FILE, CONFIGS_DIRECTORY, Model
from modelctl.repository.problems import Problem
from modelctl.repository.rules import config as config_rules
from modelctl.repository.rules import engines, ensembles, environments, golden, onnx
from modelctl.repository.rules.files import FETCHED_RELEASE
from modelctl.store.manifest import Derived
from spec.onnx_runtimes import onnx_runtime
from spec.settings import ModelServing
from spec.settings.pipelines import StepServing
from spec.settings.relations.instances import derive_instances
from spec.settings.relations.tensorrt import mistake


@dataclass(frozen=True)
class StackConfigs:
    """The generated configs of all stacks.

    `texts` by key in the release. `digests` of the serving settings and `derived` settings by stack. `problems`: settings
    that cannot be met. `others`: stacks that serve other models and so cannot use the release. `data`: further files of the
    release, by key. `warnings` are for the user.
    """

    texts: dict[str, str]
    digests: dict[str, str]
    derived: dict[str, Derived]
    problems: list[Problem]
    others: tuple[str, ...]
    data: dict[str, bytes]
    warnings: tuple[str, ...]


def config_key(model: str, stack: str) -> str:
    """Return the key, relative to the release, of a model's config in a stack."""
    return f"{model}/{CONFIGS_DIRECTORY}/{stack}.pbtxt"


def decided(models_dir: Path, stacks: Sequence[Stack]) -> frozenset[str]:
    """Return the models that every stack with some of these models has settings for. These set queues and instances."""
    named = [frozenset(stack.serving) for stack in stacks]
    of_these = [names for names in named if any((models_dir / name).is_dir() for name in names)]
    return frozenset.intersection(*of_these) if of_these else frozenset()


def stack_configs(models: Sequence[Model], stacks: Sequence[Stack]) -> StackConfigs:
    """Generate and validate the config of every model that a stack has settings for. The rules are those for handwritten
    configs.

    A stack without settings for any of these models is left out if another stack has some, because it serves another
    release.
    """
    by_name = {model.name: model for model in models}
    of_these = [stack for stack in stacks if not by_name.keys().isdisjoint(stack.serving)]
    others = tuple(stack.name for stack in stacks if of_these and stack not in of_these)
    stacks = of_these or stacks
    texts: dict[str, str] = {}
    digests: dict[str, str] = {}
    derived: dict[str, Derived] = {}
    data: dict[str, bytes] = {}
    warnings: list[str] = []
    problems: list[Problem] = []
    unpacked = _unpacked_mib(models) if stacks else {}
    for stack in [stack.serving_models(by_name) for stack in stacks]:
        problems += _environments_without_room(stack, unpacked)
        problems += _where_files_are_missing(stack, models)
        problems += _plans_of_another_tensorrt(stack, models)
        problems += _unmeasured_engines(stack, by_name)
        configs: dict[str, ModelConfig] = {}
        settings = derived_settings(stack, by_name)
        digest = stack.digest(release_of(by_name, settings))
        for name, wants in sorted(stack.serving.items()):
            if name not in by_name:
                known = ", ".join(by_name) or "none"
                problems.append(Problem(stack.file, f"models.serving.{name}: there is no such model; models: {known}"))
                continue
            try:
                configs[name] = _config(by_name[name], _decided(wants, settings.instances.get(name, 1)), stack)
            except ConfigureError as error:
                problems += [_problem(stack, by_name[name], message) for message in error.problems]
        problems += dict.fromkeys(_broken_rules(stack, by_name, configs))
        for name, config in configs.items():
            texts[config_key(name, stack.name)] = render(config, _comment(stack, name, digest))
            model, request = by_name[name], by_name[name].golden
            files = warmup.data_files(config, request)
            data |= {f"{name}/{warmup.FOLDER}/{file}": content for file, content in files.items()}
            if stack.serving[name].warmup is None and not config.model_warmup:
                warnings += _why_cold(model, warmup.without_data(model.config, request))
        engines = tuple(name for name, config in configs.items() if accelerator.builds_engines(config))
        digests[stack.name] = digest
        derived[stack.name] = settings.model_copy(update={"engines": engines})
    return StackConfigs(texts, digests, derived, problems, others, data, tuple(dict.fromkeys(warnings)))


def _why_cold(model: Model, inputs: Sequence[str]) -> Iterator[str]:
    """Yield why the server does not warm the model up. It could with data for these inputs."""
    if inputs and not model.config.HasField("sequence_batching") and not model.decoupled:
        several = "are text or have variable sizes" if len(inputs) > 1 else "is text or has variable sizes"
        yield (
            f"{model.name}: its first requests will be slow, because {', '.join(inputs)} {several} and no request is known "
            f"to warm it up with; add {model.directory / str(model.version) / golden.FILE} (docs/your-model.md)"
        )


def derived_settings(stack: Stack, models: Mapping[str, Model]) -> Derived:
    """Return the settings that a stack leaves open, derived from its pools and these models."""
    placed = [name for name in stack.serving if name in models and not models[name].steps and not models[name].self_placed]
    unmeasured = [name for name in placed if (wants := stack.serving[name]).device == "gpu" and not wants.gpu_memory_mib]
    estimates = {name: derive.gpu_memory_mib(models[name].version_bytes) for name in unmeasured}
    release = release_of(models, Derived(gpuMemoryMiB=estimates))
    settings = with_release(stack.settings, release)
    return Derived(instances=derive_instances(settings, release, placed), gpuMemoryMiB=estimates)


def _unmeasured_engines(stack: Stack, models: Mapping[str, Model]) -> Iterator[Problem]:
    """Yield models that choose their GPUs by themselves and have no `gpuMemoryMiB` in the stack."""
    for name, wants in stack.serving.items():
        if name in models and models[name].self_placed and wants.device == "gpu" and wants.gpu_memory_mib is None:
            message = "gpuMemoryMiB: is missing; files do not tell what a model takes that places itself on GPUs; give it"
            yield _problem(stack, models[name], message)


def _decided(wants: ModelServing, derived: int) -> ModelServing:
    return wants if wants.instances is not None else wants.model_copy(update={"instances": derived})


def _where_files_are_missing(stack: Stack, models: Sequence[Model]) -> Iterator[Problem]:
    """Yield models that refer to files of the release by a path that does not exist on the pods."""
    for model in models:
        if stack.access != "local" and engines.names_the_release(model.config, model.directory, model.versions):
            message = (
                f"models.access: {stack.access}, but {model.name} names files of the release at {FETCHED_RELEASE}, where "
                "pods have them with access: local; use that"
            )
            yield Problem(stack.file, f"{message} [{model.directory / CONFIG_FILE}]")


def _unpacked_mib(models: Sequence[Model]) -> dict[str, int]:
    """Return the unpacked size in MiB of the Python models' archives, by model."""
    archives = {model.name: environments.archive_of(model.config, model.directory) for model in models}
    found = {name: environments.read(archive) for name, archive in archives.items() if archive is not None}
    return {name: -(-one.unpacked // 1024**2) for name, one in found.items() if one is not None}


def _environments_without_room(stack: Stack, unpacked_mib: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem if /tmp is too small for the models' packages. The kubelet would evict each pod at its start."""
    needed = sum(unpacked_mib.values())
    if needed > stack.tmp_mib:
        each = " + ".join(f"{name} {mib}" for name, mib in sorted(unpacked_mib.items()))
        message = (
            f"models: the packages of Python models are unpacked below /tmp, {needed} MiB ({each}), and pods have "
            f"{stack.tmp_mib} MiB there; give tmp.size {2 * needed}Mi in helm-values/triton, for a container that was "
            "killed leaves its copy behind"
        )
        yield Problem(stack.file, message)


def _plans_of_another_tensorrt(stack: Stack, models: Sequence[Model]) -> Iterator[Problem]:
    """Yield plans that the server of the stack cannot load."""
    for model in models:
        for built in model.tensorrt:
            if stack.tensorrt is not None and (why := mistake(built, stack.tensorrt)):
                message = f"triton.version: a plan of {model.name} {why}; build it in the image of this version"
                yield Problem(stack.file, f"{message} [{model.directory / CONFIG_FILE}]")


def _config(model: Model, wants: ModelServing, stack: Stack) -> ModelConfig:
    files = model.files_of_every_version
    facts = Facts(stack.compute_capabilities, stack.server, model.versions, files, model.golden)
    return configure(model.config, wants, facts)


def _broken_rules(stack: Stack, models: Mapping[str, Model], configs: Mapping[str, ModelConfig]) -> Iterator[Problem]:
    """Yield the violations of rules for handwritten configs in the generated ones, singly and together."""
    for name, config in configs.items():
        model = models[name]
        for message in config_rules.check(config, model.directory, model.versions, model.own_backends):
            yield _problem(stack, model, message)
        for message in config_rules.left_open(config):
            yield _problem(stack, model, message)
        if stack.openai:
            for edit in _edits(config, model.config):
                message = f"llm: the front end of triton.openai reads {CONFIG_FILE} alone, and the stack's config differs"
                yield _problem(stack, model, f"{message}; {edit}")
        wants = stack.serving[name].llm
        if wants is not None:
            for version in model.versions:
                for message in engines.against_wants(config, model.directory, version, wants):
                    yield _problem(stack, model, message)
        for path, onnx_model in model.onnx.items():
            for message in onnx.check(config, onnx_model):
                yield _problem(stack, model, f"{message} [{path}]")
        for version in model.versions:
            for message in golden.check(config, model.directory / str(version)):
                yield _problem(stack, model, f"{version}/{golden.FILE}: {message}")
    for model in models.values():
        for path, onnx_model in model.onnx.items():
            for message in onnx.check_runtime(onnx_model, onnx_runtime(stack.release), f"Triton {stack.release}"):
                yield Problem(stack.file, f"models: {model.directory / path}: {message}")
    served = {name: configs.get(name, model.config) for name, model in models.items()}
    peers = {name: ensembles.Peer(config, models[name].versions) for name, config in served.items()}
    for name, config in served.items():
        if backends.is_ensemble(config):
            for message in ensembles.check(name, config, peers):
                yield _problem(stack, models[name], f"{message} (in this stack)")


def _edits(made: ModelConfig, written: ModelConfig) -> Iterator[str]:
    """Yield the changes from the model's own config to a stack's: fields to add and to remove."""
    lacking = ModelConfig()
    lacking.CopyFrom(made)
    for field, value in made.ListFields():
        if value == getattr(written, field.name):
            lacking.ClearField(field.name)
    if lacking.ListFields():
        yield f"write this into it: {text_format.MessageToString(lacking, as_one_line=True)}"
    wanted = {field.name for field, _ in made.ListFields()}
    if surplus := [field.name for field, _ in written.ListFields() if field.name not in wanted]:
        yield f"take this out of it: {', '.join(surplus)}"


def _problem(stack: Stack, model: Model, message: str) -> Problem:
    of_pipeline = isinstance(stack.serving.get(model.name), StepServing)
    follows = f" in the entry of its pipeline, or give {model.name} an entry of its own" if of_pipeline else ""
    return Problem(stack.file, f"models.serving.{model.name}.{message}{follows} [{model.directory / CONFIG_FILE}]")


def _comment(stack: Stack, model: str, digest: str) -> str:
    # The digest makes different settings different releases, even if the config is the same. The manifest is written once
    # and has the digest of the settings from which the release was made.
    entry = "its pipeline in models.serving" if isinstance(stack.serving[model], StepServing) else f"models.serving.{model}"
    return (
        f"Made by `modelctl release` from {CONFIG_FILE} and {entry} of Pulumi.{stack.name}.yaml\n"
        f"(all its models.serving: {digest}). Change those, not this."
    )
