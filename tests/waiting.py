"""Waiting for what another task or process brings about; without an event loop `twin.host.processes.wait_until` does it."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import tenacity
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

SECONDS = 60.0


async def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Poll until the condition holds; AssertionError, with `what` was waited for, where it never does."""
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
    """Return a server's answer. A refusal for want of capacity is asked again.

    The queues of the sample models have short time limits (docs/facts/triton-server.md#queues), and on a busy machine one
    request alone can wait for longer.
    """
    return client.infer(model, inputs, version, client_timeout=SECONDS)
