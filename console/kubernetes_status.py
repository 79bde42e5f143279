"""Read the Status object with which the Kubernetes API server refuses a request."""

from __future__ import annotations

from spec import reading
from spec.reading import Unreadable


def message(body: str | bytes | None, otherwise: str) -> str:
    """Return the API server's message; `otherwise` if the body is not a Status object."""
    try:
        return str(reading.json_object(body or "")["message"])
    except (Unreadable, KeyError):
        return otherwise
