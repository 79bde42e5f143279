"""The config.pbtxt of a model in `live/`. It is the release's config, with exactly the versions that a rollout serves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.store.manifest import Manifest

_INTERFACE = ("platform", "backend", "max_batch_size", "input", "output", "default_model_filename", "parameters")
"""Fields whose change can break the served version. A model has one config for all its versions."""


def config_key(manifest: Manifest, model: str, stack: str) -> str:
    """Return the key of the model's config for a stack. A generated config takes precedence over the model's own."""
    generated = f"{model}/configs/{stack}.pbtxt"
    return generated if generated in manifest.objects else f"{model}/config.pbtxt"


def parse(text: str) -> ModelConfig:
    """Parse a released config. Raises text_format.ParseError.

    Released configs have been validated, so the error means a damaged object.
    """
    return text_format.Parse(text, ModelConfig())


def serving(config: ModelConfig, versions: Sequence[int]) -> ModelConfig:
    """Return the config with exactly these versions."""
    changed = ModelConfig()
    changed.CopyFrom(config)
    changed.ClearField("version_policy")
    changed.version_policy.specific.versions.extend(sorted(versions))
    return changed


def to_text(config: ModelConfig) -> str:
    """Return the config as text for the repository."""
    return "# Written by `modelctl rollout`.\n" + text_format.MessageToString(config)


def to_json(config: ModelConfig) -> str:
    """Return the `config` parameter of the load API.

    It is the whole config, because it replaces the config of the repository. See
    docs/facts/triton-server.md#load-with-config.
    """
    return json.dumps(json_format.MessageToDict(config, preserving_proto_field_name=True))


def served_hash(config: dict[str, Any]) -> str:
    """Return 12 hex digits of a hash over a config as a server reports it.

    The version policy is left out. After a load that only removed a version, the server still reports the policy with which
    the remaining version was loaded (measured on 2.51). A restarted pod reports the new one. The served versions are
    compared separately.
    """
    comparable = {key: value for key, value in config.items() if key != "version_policy"}
    return hashlib.sha256(json.dumps(comparable, sort_keys=True).encode()).hexdigest()[:12]


def interface_differences(old: ModelConfig, new: ModelConfig) -> list[str]:
    """Return the fields in which two configs differ so that one does not fit the other's version."""
    return [name for name in _INTERFACE if _field(old, name) != _field(new, name)]


def used_models(config: ModelConfig) -> set[str]:
    """Return the models that an ensemble calls."""
    return {step.model_name for step in config.ensemble_scheduling.step}


def keeps_state(config: ModelConfig) -> str | None:
    """Return why a model does more than answer single requests at once. None when it does not."""
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
