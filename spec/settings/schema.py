"""The JSON Schema of a whole stack file, with which editors complete and check keys."""

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from spec.settings.model import Document
from spec.settings.source import STACK_FILE_KEYS
from spec.stack_file import full_name

SCHEMA_FILE = Path(__file__).parents[1] / "stack-file.schema.json"
# The dialect that all editors support. pydantic's output for these sections uses only its features.
_DIALECT = "http://json-schema.org/draft-07/schema#"


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, _schema: Any) -> bool:
        """Leave out pydantic's field titles, because they repeat the key."""
        return False

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Refuse keys that do not match the pattern. pydantic itself only defines the values of matching keys."""
        found = super().dict_schema(schema)
        return {**found, "additionalProperties": False} if "patternProperties" in found else found


def schema_text() -> str:
    """Return the content of the schema file.

    The schema accepts every file with full key names that the program accepts. It does not contain relations between values;
    the program checks these.
    """
    config = Document.model_json_schema(mode="validation", schema_generator=_Generator)
    definitions = config.pop("$defs")
    config["properties"] = {full_name(key): value for key, value in config["properties"].items()}
    config["required"] = [full_name(key) for key in config["required"]]
    config["patternProperties"] = {"^pulumi:": {"description": "the engine's own"}}
    others = {key: {"description": "Pulumi's own"} for key in STACK_FILE_KEYS if key != "config"}
    whole = {
        "$schema": _DIALECT,
        "title": "Stack file of triton-eks",
        "type": "object",
        "properties": {"config": config, **others},
        "required": ["config"],
        "additionalProperties": False,
        "$defs": definitions,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
