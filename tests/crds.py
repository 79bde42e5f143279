"""Check custom resources against their programs' definitions, without an API server (twin/releases/go_module.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

from twin.charts.registry import CHARTS
from twin.releases import go_module

Schema = dict[str, Any]


def problems(chart: str, resource: Mapping[str, Any]) -> list[str]:
    """Return the API server's objections to a resource whose kind comes with `chart`, including unknown fields.

    CEL rules are not evaluated. Raises ToolError if the definitions are not available.
    """
    validator = jsonschema.Draft202012Validator(_strict(_schema(chart, resource["apiVersion"], resource["kind"])))
    found = (f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(resource))
    return sorted(found)


def _schema(chart: str, api_version: str, kind: str) -> Schema:
    group, _, name = api_version.partition("/")
    for crd in go_module.definitions(CHARTS[chart]):
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, kind):
            for version in crd["spec"]["versions"]:
                if version["name"] == name and version["served"]:
                    schema: Schema = version["schema"]["openAPIV3Schema"]
                    return schema
    raise AssertionError(f"chart {chart} brings no {kind} of {api_version}")


def _strict(schema: Any) -> Any:
    """Return the schema with unknown fields refused, which the API server drops, or refuses in strict mode."""
    if isinstance(schema, list):
        return [_strict(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(member) for key, member in schema.items()}
    open_ended = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not open_ended:
        made["additionalProperties"] = False
    return made
