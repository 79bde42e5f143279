"""Call Triton over gRPC, balanced over its pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tritonclient.grpc import InferInput, InferRequestedOutput, InferResult
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from worker.failures import AttemptFailed, Unavailable
from worker.message import InferenceRequest

LARGEST_ANSWER_BYTES = 64 * 1024**2
"""As large as an input; see docs/security.md#sizes."""
_CHANNEL_OPTIONS = [
    # A channel to one address stays with one pod; the name of a headless Service resolves to all of them:
    # docs/facts/triton-server.md#grpc-channels.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # The worker itself retries and counts retries.
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", LARGEST_ANSWER_BYTES),
]
_AWAY = frozenset({"UNAVAILABLE", "CANCELLED", "ABORTED", "RESOURCE_EXHAUSTED"})
_REFUSED = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "OUT_OF_RANGE", "FAILED_PRECONDITION"})
_LONGEST_DETAIL = 500


class Triton:
    """The inference service at `url`, a gRPC name. `seconds` limits one request, including its time in the queue.

    `fleets`: by model, the names of the services that have it. If the first does not have the model, the next is called.
    While a model moves to another service or is added to one, not every pod has it.
    """

    def __init__(self, url: str, seconds: float, fleets: Mapping[str, Sequence[str]] | None = None) -> None:
        self._url, self._seconds, self._fleets = url, seconds, fleets or {}
        urls = dict.fromkeys([url, *(one for urls in self._fleets.values() for one in urls)])
        self._clients = {one: InferenceServerClient(one, channel_args=_CHANNEL_OPTIONS) for one in urls}

    async def infer(self, request: InferenceRequest, inputs: Sequence[InferInput], message_id: str) -> InferResult:
        """Return the answer. Raises Unavailable if the queue is full or the server is down, and AttemptFailed for other
        errors."""
        outputs = [InferRequestedOutput(output.name) for output in request.outputs]
        *first, last = self._fleets.get(request.model, (self._url,))
        for url in (*first, last):
            try:
                return await self._clients[url].infer(
                    request.model,
                    inputs,
                    model_version=request.version or "",
                    outputs=outputs or None,
                    request_id=message_id,
                    client_timeout=self._seconds,
                    parameters=dict(request.parameters) or None,
                )
            except InferenceServerException as error:
                if url is last or _status(error) != "NOT_FOUND":
                    raise _failure(error) from None
        raise AssertionError("the last one has answered or failed")

    async def close(self) -> None:
        """Close the connections, because an idle one would delay a server's shutdown."""
        for client in self._clients.values():
            await client.close()


def _status(error: InferenceServerException) -> str:
    return str(error.status() or "UNKNOWN").removeprefix("StatusCode.")


def _failure(error: InferenceServerException) -> Exception:
    status = _status(error)
    said = str(error.message()).partition(" NOTE: ")[0][:_LONGEST_DETAIL]
    if status == "RESOURCE_EXHAUSTED" and "larger than max" in said:  # the client's own gRPC error
        return AttemptFailed("rejected", f"the answer has more than {LARGEST_ANSWER_BYTES} bytes", final=True)
    if status in _AWAY:
        return Unavailable(f"Triton: {status}: {said}")
    if status == "DEADLINE_EXCEEDED":
        return AttemptFailed("timeout", said)
    return AttemptFailed("rejected" if status in _REFUSED else "failed", f"{status}: {said}")
