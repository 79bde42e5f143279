"""Headers of gRPC requests for the gateway: a proxy reads headers, and not the message in which the model stands.

Triton does not look at them, so that one client serves both ways, straight to the pods and through the gateway.
"""

from __future__ import annotations

MODEL_HEADER = "x-triton-model"
"""By it the gateway chooses the route; without it the answer is UNIMPLEMENTED."""
SEQUENCE_HEADER = "x-sequence-id"
"""Requests with one value of it go to one pod."""


def headers(model: str, sequence: int | None = None) -> dict[str, str]:
    """Those of a request to a model, or of one of a sequence."""
    named = {MODEL_HEADER: model}
    return named if sequence is None else {**named, SEQUENCE_HEADER: str(sequence)}
