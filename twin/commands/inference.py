"""One inference, as a client in the cluster would make it: gRPC to a ready address behind the Triton service."""

import json
import time
from dataclasses import dataclass

import grpc
import numpy as np
import tenacity
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from spec.failure import Failure
from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT
from twin.cluster import pod_addresses

MODEL = "pipeline"
FEATURES = [[5.25, 3.5, 1.75, 0.25]]
"""One request of the sample ensemble: a batch of one, four features."""


class InferenceFailed(Failure):
    """The server answered with an error, or not at all; the text says which."""


@dataclass(frozen=True)
class Answer:
    """The answer that came back. `latency_ms` is what the client saw, of the second request on a warm channel."""

    model: str
    version: str
    outputs: dict[str, list[float]]
    latency_ms: float
    address: str


def curl(address: str) -> str:
    """Return the command line that asks the sample model over HTTP at `address` (127.244.a.b)."""
    shape = [len(FEATURES), len(FEATURES[0])]
    data = [number for row in FEATURES for number in row]
    body = {"inputs": [{"name": "FEATURES", "shape": shape, "datatype": "FP32", "data": data}]}
    return f"curl -s {address}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/infer -d '{json.dumps(body)}'"


def infer(pod_ip: str, deadline_seconds: float = 30.0) -> Answer:
    """Ask the sample model at `pod_ip` and return its answer. Raises InferenceFailed.

    A refusal for want of capacity is asked again until the deadline: on a busy machine a request can wait in the queue for
    longer than the SLO allows (docs/facts/triton-server.md#queues), which says nothing about the model.
    """
    address = f"{pod_addresses.loopback(pod_ip)}:{TRITON_GRPC_PORT}"
    features = np.array(FEATURES, dtype=np.float32)
    request = triton.InferInput("FEATURES", list(features.shape), "FP32")
    request.set_data_from_numpy(features)

    @tenacity.retry(
        retry=tenacity.retry_if_exception(_is_refusal),
        stop=tenacity.stop_after_delay(deadline_seconds),
        wait=tenacity.wait_fixed(0.1),
        reraise=True,
    )
    def ask(client: triton.InferenceServerClient) -> tuple[triton.InferResult, float]:
        started = time.perf_counter()
        result = client.infer(MODEL, [request], client_timeout=deadline_seconds)
        return result, (time.perf_counter() - started) * 1000

    try:
        with triton.InferenceServerClient(address) as client:
            ask(client)
            result, latency_ms = ask(client)
    except InferenceServerException as error:
        raise InferenceFailed(f"{MODEL} at {address} did not answer: {error.message()}") from None
    response = result.get_response()
    names = sorted(output.name for output in response.outputs)
    outputs = {name: result.as_numpy(name).flatten().tolist() for name in names}
    return Answer(response.model_name, response.model_version, outputs, round(latency_ms, 2), address)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, InferenceServerException) and error.status() == str(grpc.StatusCode.UNAVAILABLE)
