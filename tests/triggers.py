"""Check KEDA triggers against KEDA's own list of scalers (docs/facts/scaling.md#triggers): the CRD accepts any text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from twin.charts.registry import CHARTS
from twin.releases import go_module


def problems(trigger: Mapping[str, Any]) -> list[str]:
    """Return unknown and missing metadata of a trigger.

    Raises ToolError if KEDA's Go module is not available.
    """
    known = _scalers().get(trigger["type"])
    if known is None:
        return [f"{trigger['type']}: no such scaler"]
    given = trigger["metadata"]
    unknown = [f"{trigger['type']}.{name}: unknown" for name in given if name not in known]
    missing = [f"{trigger['type']}.{name}: missing" for name, needed in known.items() if needed and name not in given]
    values = [
        f"{trigger['type']}.{name}: {value!r} is not text" for name, value in given.items() if not isinstance(value, str)
    ]
    return unknown + missing + values


@cache
def _scalers() -> dict[str, dict[str, bool]]:
    """Return type -> parameter -> whether the metadata requires it."""
    document = json.loads((go_module.folder(CHARTS["keda"]) / "schema" / "generated" / "scalers-schema.json").read_text())
    return {
        scaler["type"]: {
            item["name"]: bool(
                item.get("metadataVariableReadable")
                and not item.get("optional")
                and not item.get("default")
                and not item.get("triggerAuthenticationVariableReadable")
            )
            for item in scaler["parameters"]
        }
        for scaler in document["scalers"]
    }
