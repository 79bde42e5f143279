"""Send all requests of a sequence to one pod, because only that pod has its state.

The pod depends only on the sequence's id and the ready addresses (rendezvous hashing). So several processes agree without
communication, and a new or removed pod moves as few sequences as possible.

A sequence is never retried: after a lost answer it is unknown whether the value was added. If its pod goes away, its state
is lost too, and the program that owns the sequence must restart it (SequenceLost).

    python -m examples.sequence_client triton-headless.triton.svc.cluster.local:8001 --values 1,2,3
    python -m examples.sequence_client 127.0.0.2:8001,127.0.0.3:8001 --values 1,2,3
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
from collections.abc import Collection
from typing import Annotated

import numpy as np
import typer
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from examples import gateway
from examples.failures import CallFailed, code_of, sentences, stop
from examples.tensors import Answer, Arrays, to_answer, to_inputs

NOT_BEGUN = "must specify the START flag"
"""The server's error for an unknown sequence: never begun there, idle for too long, or lost."""


class SequenceLost(Exception):
    """The sequence's state is lost or unknown: begin the sequence again."""


def pod_of(sequence: int, addresses: Collection[str]) -> str:
    """Return the address that serves this sequence. Raises ValueError without addresses."""
    return max(addresses, key=lambda address: hashlib.sha256(f"{sequence} {address}".encode()).digest())


async def ready_addresses(name: str, port: int) -> list[str]:
    """Return the ready pods' addresses of a headless Service. Raises CallFailed if the name has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise CallFailed("UNAVAILABLE", f"{name} has no address") from None
    return sorted({f"{address[0]}:{port}" for *_, address in found})


class Sequence:
    """One sequence on one pod, from `SequenceClient.begin`; its first request begins it on the server.

    End it with the last request: an abandoned sequence keeps its slot for `max_sequence_idle_microseconds`.
    """

    def __init__(self, client: InferenceServerClient, model: str, number: int, address: str, deadline: float) -> None:
        self.id = number
        self.address = address
        self._client, self._model, self._deadline = client, model, deadline
        self._begun = self._over = False

    async def send(self, arrays: Arrays, end: bool = False) -> Answer:
        """Return the answer to the next request.

        Raises SequenceLost. Raises CallFailed if the first request fails, or if the server refuses a request unread; then
        the sequence can continue.
        """
        if self._over:
            raise SequenceLost(f"sequence {self.id} is over: begin another one")
        try:
            result = await self._client.infer(
                self._model,
                to_inputs(arrays),
                sequence_id=self.id,
                sequence_start=not self._begun,
                sequence_end=end,
                client_timeout=self._deadline,
                headers=gateway.headers(self._model, self.id),
            )
        except InferenceServerException as error:
            code, message = code_of(error), error.message()
            refused_unread = code == "INVALID_ARGUMENT" and NOT_BEGUN not in message
            self._over = not refused_unread
            if refused_unread or not self._begun:
                raise CallFailed(code, message) from None
            raise SequenceLost(
                f"sequence {self.id} was on {self.address}, which failed ({code}: {message}); "
                "its state is gone: begin the sequence again"
            ) from None
        self._begun, self._over = True, end
        return to_answer(result, attempts=1)


class SequenceClient:
    """Begins sequences on the pods at `addresses` (host:port). Use `async with`."""

    def __init__(self, addresses: Collection[str], deadline_seconds: float = 5.0) -> None:
        self._addresses = list(addresses)
        self._clients: dict[str, InferenceServerClient] = {}
        self._deadline = deadline_seconds

    async def __aenter__(self) -> SequenceClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            await client.close()

    def use(self, addresses: Collection[str]) -> None:
        """Begin new sequences on these pods; a running sequence stays while its pod exists."""
        self._addresses = list(addresses)

    def begin(self, model: str, number: int | None = None) -> Sequence:
        """Return a new sequence with the id `number`, or with a random 63-bit id (the server treats 0 as none)."""
        chosen = number if number is not None else secrets.randbelow(2**63 - 1) + 1
        address = pod_of(chosen, self._addresses)
        if address not in self._clients:
            self._clients[address] = InferenceServerClient(address)
        return Sequence(self._clients[address], model, chosen, address, self._deadline)


def main(
    target: Annotated[str, typer.Argument(help="<headless Service>:8001, or <host>:8001,<host>:8001")],
    model: Annotated[str, typer.Option(help="A model with the inputs of the sample `running_sum`.")] = "running_sum",
    values: Annotated[str, typer.Option(help="The sequence, whole numbers separated by commas.")] = "1,2,3",
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds for each request.")] = 5.0,
) -> None:
    """Add up numbers on the server, one request each, and print every sum."""
    try:
        numbers = [int(value) for value in values.split(",")]
    except ValueError:
        stop(f"--values: {values!r} is no list of whole numbers; for example 1,2,3")
    with sentences(target):
        try:
            asyncio.run(_add_up(target, model, numbers, deadline))
        except SequenceLost as lost:
            stop(str(lost))


async def _add_up(target: str, model: str, numbers: list[int], deadline: float) -> None:
    addresses = target.split(",")
    if len(addresses) == 1:
        name, _, port = target.rpartition(":")
        if not name or not port.isdigit():
            stop(f"{target}: no address; write <host>:<port>")
        addresses = await ready_addresses(name, int(port))
    async with SequenceClient(addresses, deadline) as client:
        sequence = client.begin(model)
        for position, number in enumerate(numbers, start=1):
            answer = await sequence.send({"VALUE": np.array([[number]], dtype=np.int64)}, end=position == len(numbers))
            typer.echo(f"sum {int(answer.outputs['SUM'][0][0])} at {sequence.address}")


if __name__ == "__main__":
    typer.run(main)
