"""Wait for the effects of other tasks or processes; without an event loop use `twin.host.processes.wait_until`."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import tenacity
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

SECONDS = 60.0


async def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Poll until the condition holds. Raises AssertionError with `what` if it never does."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {seconds:g} s in vain for {what}") from None


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, InferenceServerException) and error.status() == str(grpc.StatusCode.UNAVAILABLE)


@tenacity.retry(
    retry=tenacity.retry_if_exception(_is_refusal),
    stop=tenacity.stop_after_delay(SECONDS),
    wait=tenacity.wait_fixed(0.1),
    reraise=True,
)
def answer(client: InferenceServerClient, model: str, inputs: list[InferInput], version: str = "") -> InferResult:
    """Return a server's answer; retry a refusal for lack of capacity.

    The sample models' queues have short time limits (docs/facts/triton-server.md#queues), and on a busy machine even a
    single request can wait longer.
    """
    return client.infer(model, inputs, version, client_timeout=SECONDS)
