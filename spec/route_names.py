"""Names of the gateway's routes, by which Envoy's metrics name them too."""

from __future__ import annotations

import hashlib
import re

from spec.names import ALL_MODELS_ROUTE, OPENAI_ROUTE


def object_name(model: str) -> str:
    """Return the name of a model's objects: its own if Kubernetes takes it and no other route has it, else a unique one."""
    if (
        len(model) <= 50
        and model not in (ALL_MODELS_ROUTE, OPENAI_ROUTE)
        and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", model)
    ):
        return model
    readable = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40].strip("-")
    return f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
