"""Headers for the gateway: the client's identity and, over gRPC, the model, because a proxy does not parse the message.

Triton ignores them, so one client works both directly with the pods and through the gateway.
"""

from __future__ import annotations

from typing import Annotated

import typer

MODEL_HEADER = "x-triton-model"
"""The gateway chooses the route by it; without it, the route of all models, if the stack has one (docs/traffic.md)."""
SEQUENCE_HEADER = "x-sequence-id"
"""Requests with the same value go to the same pod."""

ApiKey = Annotated[
    str,
    typer.Option(
        envvar="TRITON_API_KEY",
        show_envvar=True,
        help="The key or token of this client, where the gateway asks for one; from the variable nobody reads it in `ps`.",
    ),
]


def headers(model: str, sequence: int | None = None, api_key: str = "") -> dict[str, str]:
    """Return the gRPC headers for requests to a model, or to one sequence of a model."""
    named = {MODEL_HEADER: model, **identity(api_key)}
    return named if sequence is None else {**named, SEQUENCE_HEADER: str(sequence)}


def identity(api_key: str) -> dict[str, str]:
    """Return the header with the client's identity; empty without a key or token (docs/access.md#for-clients)."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}
