"""Triton over gRPC, balanced over its pods."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tritonclient.grpc import InferInput, InferRequestedOutput, InferResult
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from worker.failures import AttemptFailed, Unavailable
from worker.message import InferenceRequest

_CHANNEL_OPTIONS = [
    # A channel to one address stays with one pod; a headless Service's name stands for all of them:
    # docs/facts/triton-server.md#grpc-channels.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # The worker tries again itself, and counts it.
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
_AWAY = frozenset({"UNAVAILABLE", "CANCELLED", "ABORTED", "RESOURCE_EXHAUSTED"})
_REFUSED = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "OUT_OF_RANGE", "FAILED_PRECONDITION"})
_LONGEST_DETAIL = 500


class Triton:
    """The inference service at `url`, a gRPC name; `seconds` limits one request, its time in the queue included."""

    def __init__(self, url: str, seconds: float) -> None:
        self._client = InferenceServerClient(url, channel_args=_CHANNEL_OPTIONS)
        self._seconds = seconds

    async def infer(self, request: InferenceRequest, inputs: Sequence[InferInput], message_id: str) -> InferResult:
        """The answer. Raises Unavailable for a full queue and a server that is away, AttemptFailed for all else."""
        outputs = [InferRequestedOutput(output.name) for output in request.outputs]
        try:
            return await self._client.infer(
                request.model,
                inputs,
                model_version=request.version or "",
                outputs=outputs or None,
                request_id=message_id,
                client_timeout=self._seconds,
                parameters=dict(request.parameters) or None,
            )
        except InferenceServerException as error:
            raise _failure(error) from None

    async def close(self) -> None:
        """Closes the connections: an idle one would hold up the end of a server."""
        await self._client.close()


def _failure(error: InferenceServerException) -> Exception:
    status = (error.status() or "UNKNOWN").removeprefix("StatusCode.")
    said = str(error.message()).partition(" NOTE: ")[0][:_LONGEST_DETAIL]
    if status in _AWAY:
        return Unavailable(f"Triton: {status}: {said}")
    if status == "DEADLINE_EXCEEDED":
        return AttemptFailed("timeout", said)
    return AttemptFailed("rejected" if status in _REFUSED else "failed", f"{status}: {said}")
