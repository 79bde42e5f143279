"""Names of the gateway's routes, which also appear in Envoy's metrics."""

from __future__ import annotations

import hashlib
import re

from spec.names import ALL_MODELS_ROUTE, OPENAI_ROUTE


def object_name(model: str) -> str:
    """Return the name of a model's objects: the model's name if it is valid in Kubernetes and free, else a unique name."""
    if (
        len(model) <= 50
        and model not in (ALL_MODELS_ROUTE, OPENAI_ROUTE)
        and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", model)
    ):
        return model
    readable = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40].strip("-")
    return f"{readable}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
