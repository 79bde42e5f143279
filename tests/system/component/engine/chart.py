"""``helm.v4.Chart``: renders with real Helm, and registers the objects as the official provider does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.system.component.engine.providers import Refused
from tests.system.component.engine.recording import Values
from twin.plugins.chart import INPUTS, child_name, type_token
from twin.releases import helm

TOKEN = "kubernetes:helm.sh/v4:Chart"


def expand(root: Path, name: str, inputs: Values, register: Callable[[str, str, Values], Any]) -> None:
    """Register every object of the chart. Raises Refused with Helm's message."""
    unknown = sorted(inputs.keys() - INPUTS)
    if unknown:
        raise Refused(f"{', '.join(unknown)}: not for a chart in a folder of the project")
    files = [root / asset["path"] for asset in inputs.get("valueYamlFiles", [])]
    try:
        objects = helm.render(
            root / inputs["chart"],
            name=inputs.get("name", name),
            namespace=inputs.get("namespace", "default"),
            values=inputs.get("values", {}),
            value_files=files,
        )
    except helm.HelmError as error:
        raise Refused(str(error)) from error
    for manifest in objects:
        register(type_token(manifest), child_name(inputs.get("resourcePrefix") or name, manifest), manifest)
