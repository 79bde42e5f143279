"""Headers for the gateway: who asks, and over gRPC which model, as a proxy does not read the message that says it.

Triton does not look at them, so that one client serves both ways, straight to the pods and through the gateway.
"""

from __future__ import annotations

from typing import Annotated

import typer

MODEL_HEADER = "x-triton-model"
"""By it the gateway chooses the route; without it, the route of all models, if the stack has one (docs/traffic.md)."""
SEQUENCE_HEADER = "x-sequence-id"
"""Requests with one value of it go to one pod."""

ApiKey = Annotated[
    str,
    typer.Option(
        envvar="TRITON_API_KEY",
        show_envvar=True,
        help="The key or token of this client, where the gateway asks for one; from the variable nobody reads it in `ps`.",
    ),
]


def headers(model: str, sequence: int | None = None, api_key: str = "") -> dict[str, str]:
    """Return those of a request to a model, or of one of a sequence, over gRPC."""
    named = {MODEL_HEADER: model, **identity(api_key)}
    return named if sequence is None else {**named, SEQUENCE_HEADER: str(sequence)}


def identity(api_key: str) -> dict[str, str]:
    """Return the header that says who asks; none without a key or token (docs/access.md#for-clients)."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}
