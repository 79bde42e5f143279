"""Measure the gain of shared memory: the same pictures over gRPC and shared memory, alternating, as medians.

python -m examples.measure_shared_memory 127.0.0.1:8001 --admin-key "$(cat /run/triton/admin-key)"
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer
from tritonclient.grpc import InferenceServerClient

from examples.failures import sentences
from examples.shared_memory import Region, SharedMemory, to_gray
from examples.tensors import to_inputs

SIZES = [(128, 128), (480, 640), (1080, 1920)]
"""Height and width of the pictures."""
WARM_UP_ROUNDS = 3


def main(
    target: Annotated[str, typer.Argument(help="<host>:8001 of the server in this pod.")],
    admin_key: Annotated[str | None, typer.Option(envvar="TRITON_ADMIN_KEY", help="Key of the restricted APIs.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Requests each way and size, one at a time.")] = 100,
) -> None:
    """Print a table: bytes of a request and its answer, and the median time of a call each way, in ms."""
    typer.echo("| picture | bytes | gRPC ms | shared memory ms | saved ms |\n|---|---|---|---|---|")
    with sentences(target), InferenceServerClient(target) as client:
        memory = SharedMemory(client, admin_key)
        for height, width in SIZES:
            rgb = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
            with memory.region(height * width * 4) as region:
                sent, shared = _medians(client, region, rgb, rounds)
            row = f"| {width} x {height} | {height * width * 4} | {sent:.2f} | {shared:.2f} | {sent - shared:.2f} |"
            typer.echo(row)


def _medians(client: InferenceServerClient, region: Region, rgb: np.ndarray, rounds: int) -> tuple[float, float]:
    """Return the milliseconds over gRPC and over shared memory; alternating, so that a busy machine slows both."""

    def over_grpc() -> None:
        client.infer("to_gray", to_inputs({"RGB": rgb}), client_timeout=30).as_numpy("GRAY")

    def over_shared_memory() -> None:
        to_gray(client, region, rgb).copy()

    for _ in range(WARM_UP_ROUNDS):
        over_grpc()
        over_shared_memory()
    pairs = [(_milliseconds(over_grpc), _milliseconds(over_shared_memory)) for _ in range(rounds)]
    return statistics.median(sent for sent, _ in pairs), statistics.median(shared for _, shared in pairs)


def _milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    typer.run(main)
