"""The config of a model by itself, beside its directory's name and the versions that are released."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository import backends
from modelctl.repository.rules import engines, instances, responses, scheduling, tensors, warmup
from modelctl.repository.selection import RELEASE_FILE


def check(
    config: ModelConfig,
    directory: Path,
    versions: Sequence[int],
    own_backends: Collection[str] = (),
    *,
    queues: bool = True,
) -> Iterator[str]:
    """Yield what is wrong with the config of the model in `directory`, by itself, when these versions are released.

    `own_backends`: those that it may name beside NVIDIA's. `queues`: whether a queue has to be bounded.
    """
    name = directory.name
    if config.name and config.name != name:
        yield f'name: "{config.name}" is not the name of the directory, {name}; write that or leave name out'
    yield from backends.check(config, own_backends)
    yield from engines.check(config)
    yield from tensors.check(config)
    yield from _version_policy(config, versions)
    if backends.is_ensemble(config):
        return
    yield from tensors.check_compute_capabilities(config)
    yield from scheduling.check(config, queues=queues)
    yield from instances.check(config)
    yield from warmup.check(config)
    yield from responses.check(config)


def _version_policy(config: ModelConfig, versions: Sequence[int]) -> Iterator[str]:
    if not config.HasField("version_policy") or not versions:
        return
    policy = config.version_policy
    wanted = f"specific {{ versions: [ {', '.join(map(str, versions))} ] }}"
    choice = policy.WhichOneof("policy_choice")
    if choice != "specific":
        yield (
            f"version_policy: {choice or 'empty'}, but a release serves exactly the versions that {RELEASE_FILE} says; "
            f"leave it out (the release adds {wanted})"
        )
    elif sorted(policy.specific.versions) != sorted(versions):
        yield (
            f"version_policy: specific {list(policy.specific.versions)}, but the release serves "
            f"version {' and '.join(map(str, versions))}; leave it out (the release adds {wanted})"
        )
