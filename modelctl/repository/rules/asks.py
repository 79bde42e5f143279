"""Read the models that a model calls by itself inside its server, from its config's `parameters[asks]`.

Only the config can name them, because a Python model calls others from its code
(https://github.com/triton-inference-server/python_backend/blob/0192ff5aefc212479f23a49682f23636d2eb84bf/README.md#business-logic-scripting).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tritonclient.grpc.model_config_pb2 import ModelConfig

from spec.wording import did_you_mean, one_of

PARAMETER = "asks"


def asked(config: ModelConfig) -> tuple[str, ...]:
    """Return the models that the model calls, each once."""
    value = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    return tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))


def check(name: str, config: ModelConfig, models: Collection[str]) -> Iterator[str]:
    """Yield the mistakes in the calls of model `name`. `models` are all models of the repository."""
    where = f"parameters[{PARAMETER}]"
    others = sorted(set(models) - {name})
    if PARAMETER in config.parameters and not asked(config):
        yield f"{where}: names no model; name those that it asks, like a,b, or leave it out"
    for other in asked(config):
        if other == name:
            yield f"{where}: {name} is the model itself; name the others that it asks"
        elif other not in others:
            known = f"use {one_of(others)}" if others else "there is no other"
            yield f"{where}: there is no model {other}; {did_you_mean(other, others)}{known}"
