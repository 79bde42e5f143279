"""One inference, as a client in the cluster would make it: gRPC to a ready address behind the Triton service."""

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

# A client of gRPC, arrays and pictures are loaded where they are needed: `twin status` reads this module, too.
if TYPE_CHECKING:
    import numpy as np
    import tritonclient.grpc as triton

MODEL = "pipeline"
FEATURES = [[5.25, 3.5, 1.75, 0.25]]
"""One request of the sample ensemble: a batch of one, four features."""
PICTURE_TEXT = "Triton on EKS"
_LETTER_HEIGHT = 36
_PICTURE_SECONDS = 60.0
_MARGIN = 92
"""Letters are a sixth of the height, about as in a photograph: those that fill the picture are read worse."""


class InferenceFailed(Failure):
    """The server answered with an error, or not at all; the text says which."""


@dataclass(frozen=True)
class Answer:
    """The answer that came back. `latency_ms` is what the client saw, of the second request on a warm channel.

    `read` are the lines that were read in a picture of PICTURE_TEXT, by the models of the twin that has such.
    """

    model: str
    version: str
    outputs: dict[str, list[float]]
    latency_ms: float
    address: str
    read: tuple[str, ...] = ()


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
    """Return a picture of one line of text, black on white: rows, columns, and red, green and blue."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_LETTER_HEIGHT)
    size = round(font.getlength(text)) + 2 * _MARGIN, _LETTER_HEIGHT + 2 * _MARGIN
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((_MARGIN, _MARGIN), text, "black", font)
    return np.array(image)


def read_picture(pod_ip: str, picture: np.ndarray) -> list[str]:
    """Return the lines of text that the models of examples/packaged read in a picture. Raises InferenceFailed."""
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
