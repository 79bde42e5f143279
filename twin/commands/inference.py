"""One inference, sent like a client in the cluster would: gRPC to a ready address behind the Triton service."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tenacity

from spec.failure import Failure
from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT
from twin.cluster import pod_addresses
from twin.services.release_sources import PICTURE_MODEL

# The clients for gRPC, arrays and pictures are imported when needed, because `twin status` imports this module too.
if TYPE_CHECKING:
    import numpy as np
    import tritonclient.grpc as triton

MODEL = "pipeline"
FEATURES = [[5.25, 3.5, 1.75, 0.25]]
"""One request to the sample ensemble: a batch of one, four features."""
PICTURE_TEXT = "Triton on EKS"
_LETTER_HEIGHT = 36
_PICTURE_SECONDS = 60.0
_MARGIN = 92
"""Letters are a sixth of the height, as in a photograph. Letters that fill the picture are recognized less well."""


class InferenceFailed(Failure):
    """The server answered with an error, or not at all; the text says which."""


@dataclass(frozen=True)
class Answer:
    """A response. `latency_ms` was measured by the client, for the second request on a warm channel.

    `read`: the lines of text that the models found in a picture of PICTURE_TEXT, if the twin has such models.
    """

    model: str
    version: str
    outputs: dict[str, list[float]]
    latency_ms: float
    address: str
    read: tuple[str, ...] = ()


def curl(address: str) -> str:
    """Return the command line that sends a request over HTTP to the sample model at `address` (127.244.a.b)."""
    shape = [len(FEATURES), len(FEATURES[0])]
    data = [number for row in FEATURES for number in row]
    body = {"inputs": [{"name": "FEATURES", "shape": shape, "datatype": "FP32", "data": data}]}
    return f"curl -s {address}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/infer -d '{json.dumps(body)}'"


def infer(pod_ip: str, deadline_seconds: float = 30.0) -> Answer:
    """Send a request to the sample model at `pod_ip` and return its response. Raises InferenceFailed.

    A request that is refused for lack of capacity is retried until the deadline. On a busy machine a request can wait in
    the queue longer than the SLO allows (docs/facts/triton-server.md#queues). This is not a problem of the model.
    """
    import numpy as np
    import tritonclient.grpc as triton
    from tritonclient.utils import InferenceServerException

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
    import grpc
    from tritonclient.utils import InferenceServerException

    return isinstance(error, InferenceServerException) and error.status() == str(grpc.StatusCode.UNAVAILABLE)


def picture_of(text: str) -> np.ndarray:
    """Return a picture of one line of text, black on white, as an array of rows, columns and RGB."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_LETTER_HEIGHT)
    size = round(font.getlength(text)) + 2 * _MARGIN, _LETTER_HEIGHT + 2 * _MARGIN
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((_MARGIN, _MARGIN), text, "black", font)
    return np.array(image)


def read_picture(pod_ip: str, picture: np.ndarray) -> list[str]:
    """Return the lines of text that the models of examples/packaged find in a picture. Raises InferenceFailed."""
    import tritonclient.grpc as triton
    from tritonclient.utils import InferenceServerException

    address = f"{pod_addresses.loopback(pod_ip)}:{TRITON_GRPC_PORT}"
    request = triton.InferInput("PICTURE", list(picture.shape), "UINT8")
    request.set_data_from_numpy(picture)
    try:
        with triton.InferenceServerClient(address) as client:
            result = client.infer(PICTURE_MODEL, [request], client_timeout=_PICTURE_SECONDS)
    except InferenceServerException as error:
        raise InferenceFailed(f"{PICTURE_MODEL} at {address} did not answer: {error.message()}") from None
    return [text.decode(errors="replace") for text in result.as_numpy("TEXT")]
