"""Send inference requests over HTTP with binary tensors, several times shorter than JSON text.

Prefer gRPC: idle HTTP connections delay a server that drains (docs/drain.md), so this client opens a new connection for each
request. Through the ClusterIP Service, requests then spread over the pods at random.

    python -m examples.http_client http://triton.triton.svc.cluster.local:8000
    TRITON_API_KEY=… python -m examples.http_client https://inference.example.com           # through the gateway
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import httpx
import numpy as np
import typer
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import np_to_triton_dtype

from examples import gateway
from examples.failures import CallFailed, sentences, stop
from examples.retries import RetryPolicy
from examples.tensors import Answer, Arrays

JSON_LENGTH = "Inference-Header-Content-Length"
"""The number of JSON bytes in the body; the tensors follow. In requests and in answers."""
CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    503: "UNAVAILABLE",
}


class HttpClient:
    """Sends requests to models at a base URL (http://host:8000). Use `async with`. `api_key`: if a gateway requires one."""

    def __init__(self, url: str, policy: RetryPolicy | None = None, api_key: str = "") -> None:
        self._policy = policy or RetryPolicy()
        # httpx limits each step of a request; `infer` limits the whole call. The machine's proxy settings do not apply
        # to services of the cluster.
        # Not keepalive_expiry: httpx looks at idle connections only at its next request, which may never come.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=self._policy.deadline_seconds,
            limits=limits,
            trust_env=False,
            headers=gateway.identity(api_key),
        )

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def infer(self, model: str, arrays: Arrays, version: str = "") -> Answer:
        """Return the model's answer. Raises CallFailed.

        Retries after 503, and if the connection failed or broke, which gRPC also calls UNAVAILABLE.
        """
        body, json_length = InferenceServerClient.generate_request_body(_inputs(arrays))
        headers = {"Content-Type": "application/octet-stream"} | ({JSON_LENGTH: str(json_length)} if json_length else {})
        path = f"/v2/models/{model}/versions/{version}/infer" if version else f"/v2/models/{model}/infer"

        async def send(seconds: float) -> httpx.Response:
            try:
                async with asyncio.timeout(seconds):
                    response = await self._http.post(path, content=body, headers=headers)
            except (TimeoutError, httpx.TimeoutException):
                raise CallFailed("DEADLINE_EXCEEDED", "no answer in time") from None
            except httpx.TransportError as error:
                raise CallFailed("UNAVAILABLE", str(error)) from None
            if response.status_code != 200:
                raise CallFailed(CODES.get(response.status_code, f"HTTP {response.status_code}"), _message(response))
            return response

        response, attempts = await self._policy.call(send)
        return _answer(response, attempts)


def _inputs(arrays: Arrays) -> list[InferInput]:
    inputs = []
    for name, array in arrays.items():
        tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=True)
        inputs.append(tensor)
    return inputs


def _answer(response: httpx.Response, attempts: int) -> Answer:
    length = response.headers.get(JSON_LENGTH)
    result = InferenceServerClient.parse_response_body(response.content, header_length=int(length) if length else None)
    described = result.get_response()
    outputs = {output["name"]: result.as_numpy(output["name"]) for output in described["outputs"]}
    return Answer(described["model_version"], outputs, attempts)


def _message(response: httpx.Response) -> str:
    """Return Triton's own words; a proxy may answer without any."""
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return response.text.strip()[:200] or response.reason_phrase


def main(
    url: Annotated[str, typer.Argument(help="http://<Service or pod>:8000")],
    model: Annotated[str, typer.Option(help="A model with the inputs of the sample `pipeline`.")] = "pipeline",
    features: Annotated[str, typer.Option(help="The measurements, separated by commas.")] = "5.25,3.5,1.75,0.25",
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds for the call, its retries included.")] = 5.0,
    api_key: gateway.ApiKey = "",
) -> None:
    """Classify four measurements and print scores, class and the version that answered."""
    if not url.startswith(("http://", "https://")):
        stop(f"{url}: no URL; write http://<host>:8000")
    try:
        values = np.array([[float(number) for number in features.split(",")]], dtype=np.float32)
    except ValueError:
        stop(f"--features: {features!r} is no list of numbers; for example 5.25,3.5,1.75,0.25")
    with sentences(url):
        answer = asyncio.run(_classify(url, model, values, RetryPolicy(deadline), api_key))
    scores, chosen = answer.outputs["SCORES"][0].tolist(), int(answer.outputs["CLASS"][0][0])
    typer.echo(f"class {chosen}, scores {scores}, version {answer.version}, attempts {answer.attempts}")


async def _classify(url: str, model: str, values: np.ndarray, policy: RetryPolicy, api_key: str) -> Answer:
    async with HttpClient(url, policy, api_key) as http:
        return await http.infer(model, {"FEATURES": values})


if __name__ == "__main__":
    typer.run(main)
