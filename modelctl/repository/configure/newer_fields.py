"""Find fields of a config that are too new for a stack's server. It would refuse the whole config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritonclient.grpc.model_config_pb2 import ModelConfig

from spec.triton_options import CONFIG_FIELDS, newer_than


def newer_fields(config: ModelConfig, server: str) -> dict[str, str]:
    """Return the fields in `config` that server `server` (`2.71.0`) lacks. Each has the server version that
    introduced it."""
    used = dict.fromkeys(_names(config))
    return {name: CONFIG_FIELDS[name] for name in used if name in CONFIG_FIELDS and newer_than(CONFIG_FIELDS[name], server)}


def _names(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        yield field.name
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = value.values() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            values = value if field.is_repeated else (value,)
        for inner in values:
            yield from _names(inner)
