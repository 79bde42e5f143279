"""Measure the gateway's requests/s, and Envoy's processor time per request.

    python benchmarks/gateway_throughput.py

One client keeps IN_FLIGHT requests open, for each way separately (directly to the pods, through a bare Envoy, through the
gateway). The ways run in random order on a separate twin (benchmarks/gateway_ways.py). Client, servers and Envoys share this
machine's CPUs, which are all busy: Envoy's share is missing elsewhere. So the rates do not apply to a gateway on its own
nodes. The processor time per request depends less on this machine. benchmarks/RESULTS.md has the results.

Fixed before the first run; record each change in benchmarks/README.md:

* metric: answers/s of each way, divided by the direct answers/s in the same round, and the Envoys' processor time for each
  request; both as the mean of the rounds with a 95 % interval (Student's t);
* the number of open requests, the length of a load and of its warm-up, and the model: `classify`, which answers in about a
  millisecond.

Every request is answered, or refused by a server because it waited too long in its queue; refusals count as unanswered and
are reported. A run with any other outcome is refused.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.gateway_ways import PROTOCOLS, SERVER_VERSION, WAYS, Protocol, Way, Ways, twin  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, Record, conditions, interval, write  # noqa: E402
from modelctl.loadgen import RequestFailed, Send  # noqa: E402
from modelctl.loadgen.result import SHED  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402

IN_FLIGHT = 16
SECONDS, WARM_UP_SECONDS = 10.0, 2.0


class Run(Record):
    """One load of one way, without its warm-up. `envoy_ms`: its Envoys' processor time per request.

    `refused`: by a server, because they waited too long in its queue.
    """

    way: Way
    protocol: Protocol
    round: int
    answered: int
    refused: int
    rate: float
    envoy_ms: float


class Beside(Record):
    """A way compared with direct requests, with the 95 % intervals. `times`: its rate divided by the direct rate."""

    protocol: Protocol
    way: Way
    times: tuple[float, float, float]
    envoy_ms: tuple[float, float, float]


class Report(Record):
    """The whole measurement."""

    kind: str = "gateway throughput"
    started: datetime
    finished: datetime
    seconds: float
    in_flight: int
    seed: int
    conditions: Conditions
    machine: Machine
    versions: Versions
    runs: list[Run]
    beside: list[Beside]


def main(
    rounds: Annotated[int, typer.Option(min=2, max=10, help="Loads of each way and protocol.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the orders.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure each way's requests/s and Envoy's processor time."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    order = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    runs: list[Run] = []
    with twin() as ways:
        for number in range(rounds):
            for protocol in order.sample(PROTOCOLS, len(PROTOCOLS)):
                for way in order.sample(WAYS, len(WAYS)):
                    runs.append(asyncio.run(_measure(ways, way, protocol, number)))
                    typer.echo(runs[-1].model_dump_json())
    report = Report(
        started=started,
        finished=datetime.now(UTC),
        seconds=SECONDS,
        in_flight=IN_FLIGHT,
        seed=seed,
        conditions=made,
        machine=record.machine(made.load_before, server_on_loopback=True),
        versions=record.versions(SERVER_VERSION),
        runs=runs,
        beside=beside(runs),
    )
    for one in report.beside:
        typer.echo(one.model_dump_json())
    typer.echo(f"written: {write(report, 'gateway-throughput', started, results)}")


def beside(runs: list[Run]) -> list[Beside]:
    """Compare each way through Envoy with the direct way, by the rounds."""
    by_round = {(run.protocol, run.way, run.round): run for run in runs}
    rounds = sorted({run.round for run in runs})

    def found(protocol: Protocol, way: Way) -> Beside:
        own = [by_round[protocol, way, number] for number in rounds]
        straight = [by_round[protocol, "pod", number] for number in rounds]
        times = [run.rate / other.rate for run, other in zip(own, straight, strict=True)]
        return Beside(protocol=protocol, way=way, times=interval(times), envoy_ms=interval([run.envoy_ms for run in own]))

    return [found(protocol, way) for protocol in PROTOCOLS for way in WAYS if way != "pod"]


async def _measure(ways: Ways, way: Way, protocol: Protocol, number: int) -> Run:
    async with ways.sender(way, protocol) as send:
        gc.collect()
        gc.disable()
        try:
            await full(send, IN_FLIGHT, WARM_UP_SECONDS)
            loop = asyncio.get_running_loop()
            before, begin = ways.envoy_seconds(way), loop.time()
            answered, refused = await full(send, IN_FLIGHT, SECONDS)
            took, used = loop.time() - begin, ways.envoy_seconds(way) - before
        except* RequestFailed as failures:
            raise SystemExit(f"error: {protocol}, {way}: a request had no answer: {failures.exceptions[0]}") from None
        finally:
            gc.enable()
    return Run(
        way=way,
        protocol=protocol,
        round=number,
        answered=answered,
        refused=refused,
        rate=round(answered / took, 1),
        envoy_ms=round(1000 * used / (answered + refused), 4),
    )


async def full(send: Send, in_flight: int, seconds: float) -> tuple[int, int]:
    """Keep this many requests open for `seconds`, and wait for the last answers.

    Return the numbers of answered requests and of requests that a server's queue refused. Raises RequestFailed, in a group,
    for any other outcome.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    answered = refused = 0
    numbers = itertools.count()

    async def one_after_the_other() -> None:
        nonlocal answered, refused
        while loop.time() < end:
            try:
                await send(next(numbers))
                answered += 1
            except RequestFailed as failure:
                if failure.code != SHED:
                    raise
                refused += 1

    async with asyncio.TaskGroup() as clients:
        for _ in range(in_flight):
            clients.create_task(one_after_the_other())
    return answered, refused


if __name__ == "__main__":
    typer.run(main)
