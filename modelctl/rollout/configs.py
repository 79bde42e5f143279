"""config.pbtxt of a model in `live/`: the release's own, serving exactly the versions that a rollout says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.store.manifest import Manifest

_INTERFACE = ("platform", "backend", "max_batch_size", "input", "output", "default_model_filename", "parameters")
"""A changed value here can break the version that is served already: a model has one config for all its versions."""


def config_key(manifest: Manifest, model: str, stack: str) -> str:
    """Return the object that holds the model's config for a stack: generated from its wants, or the model's own."""
    generated = f"{model}/configs/{stack}.pbtxt"
    return generated if generated in manifest.objects else f"{model}/config.pbtxt"


def parse(text: str) -> ModelConfig:
    """Raises text_format.ParseError; a released config has been validated, so that is a damaged object."""
    return text_format.Parse(text, ModelConfig())


def serving(config: ModelConfig, versions: Sequence[int]) -> ModelConfig:
    """Return the config with exactly these versions."""
    changed = ModelConfig()
    changed.CopyFrom(config)
    changed.ClearField("version_policy")
    changed.version_policy.specific.versions.extend(sorted(versions))
    return changed


def to_text(config: ModelConfig) -> str:
    """Return what is stored."""
    return "# Written by `modelctl rollout`.\n" + text_format.MessageToString(config)


def to_json(config: ModelConfig) -> str:
    """Return the load API's `config` parameter; the whole config, since it replaces that of the repository.

    See docs/facts/triton-server.md#load-with-config.
    """
    return json.dumps(json_format.MessageToDict(config, preserving_proto_field_name=True))


def served_hash(config: dict[str, Any]) -> str:
    """12 hex digits over a config as a server shows it.

    Without the version policy: after a load that only took a version away, the server goes on showing the policy with
    which the remaining one was loaded (measured on 2.51), unlike a pod that was restarted. Which versions are served is
    compared by themselves.
    """
    comparable = {key: value for key, value in config.items() if key != "version_policy"}
    return hashlib.sha256(json.dumps(comparable, sort_keys=True).encode()).hexdigest()[:12]


def interface_differences(old: ModelConfig, new: ModelConfig) -> list[str]:
    """Return the fields in which a config no longer fits the version that it was not written for."""
    return [name for name in _INTERFACE if _field(old, name) != _field(new, name)]


def used_models(config: ModelConfig) -> set[str]:
    """Return the models that an ensemble calls."""
    return {step.model_name for step in config.ensemble_scheduling.step}


def keeps_state(config: ModelConfig) -> str | None:
    """Return why one request, answered at once, is not all there is to this model; None when it is."""
    if config.HasField("sequence_batching"):
        return "it answers sequences, and a sequence must end on the version that it began on"
    if config.model_transaction_policy.decoupled:
        return "it is decoupled, and its answers cannot be compared over HTTP"
    return None


def _field(config: ModelConfig, name: str) -> Any:
    value = getattr(config, name)
    if name == "parameters":
        return {key: entry.string_value for key, entry in value.items()}
    return list(value) if name in {"input", "output"} else value
