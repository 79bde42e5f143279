"""Check the config of one model by itself: mistakes, and decisions that it leaves to the server.

If a stack has settings for the model (`models.serving`), it makes these decisions, so leaving them open is no mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository import backends
from modelctl.repository.rules import engines, instances, responses, scheduling, tensors, warmup
from modelctl.repository.selection import RELEASE_FILE


def check(
    config: ModelConfig, directory: Path, versions: Sequence[int], own_backends: Collection[str] = ()
) -> Iterator[str]:
    """Yield the mistakes in the config of the model in `directory` for a release of these versions.

    `own_backends`: the backends besides NVIDIA's that the config may name.
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
    yield from scheduling.check(config)
    yield from instances.check(config)
    yield from warmup.check(config)
    yield from responses.check(config)


def left_open(config: ModelConfig, *, queues: bool = True) -> Iterator[str]:
    """Yield instances that the server would choose and, with `queues`, queues without a bound."""
    if backends.is_ensemble(config):
        return
    if queues:
        yield from scheduling.left_open(config)
    yield from instances.left_open(config)


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
