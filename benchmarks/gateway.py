"""Measure the time that the gateway adds to a request: straight to the pods of Triton against through Envoy, HTTP and gRPC.

    python benchmarks/gateway.py

brings a twin with a gateway up (`python -m twin up --gateway`, in a home of its own), and sends the same arrivals straight
to the pods and through the Envoys, in turns: every round takes both ways of both protocols in a random order. A load goes
to all pods, or to all Envoys, in turn. The load balancer in front of Envoy is left out: on the twin it is a program of ours.
benchmarks/RESULTS.md says what came out.

Fixed here before the first run; who changes one of them writes a new entry in benchmarks/README.md:

* metric: in each round p99 through Envoy minus p99 straight to the pods, and the same of p50; their mean over the rounds
  with a 95 % interval. A latency counts from the moment at which a request was due;
* GOAL_MS, the rate, the length of a load, and the model: `classify`, which answers in about a millisecond.

Every request is accounted for: a run in which one had no answer is refused.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import httpx
import numpy as np
import typer
from tritonclient.grpc import InferInput

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Conditions, Record, conditions, interval, write  # noqa: E402
from examples.gateway import headers  # noqa: E402
from modelctl.loadgen import RequestFailed, Schedule, Send, grpc_sender, run  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402
from twin.services.servers import Servers  # noqa: E402

GOAL_MS = 1.0
"""The most that the gateway may add at p99."""
RATE, SECONDS, WARM_UP_SECONDS = 50.0, 20.0, 3.0
MODEL, INPUT, VALUES = "classify", "NORMALIZED", [5.25, 3.5, 1.75, 0.25]
SERVER_VERSION = "2.51.0"

Way = Literal["pod", "gateway"]
Protocol = Literal["http", "grpc"]
Percentile = Literal["p50", "p99"]
_FIGURES: tuple[tuple[Protocol, Percentile], ...] = tuple(product(("http", "grpc"), ("p50", "p99")))
WAYS: tuple[tuple[Way, Protocol], ...] = tuple(product(("pod", "gateway"), ("http", "grpc")))


class Run(Record):
    """One load, without its warm-up: requests = answered."""

    way: Way
    protocol: Protocol
    round: int
    requests: int
    p50_ms: float
    p99_ms: float
    late_p95_ms: float


class Added(Record):
    """What a percentile is longer through Envoy: the mean of the rounds, with the ends of its 95 % interval."""

    protocol: Protocol
    percentile: Percentile
    ms: tuple[float, float, float]


class Report(Record):
    """The whole measurement."""

    kind: str = "gateway"
    started: datetime
    finished: datetime
    rate: float
    seconds: float
    goal_ms: float
    seed: int
    conditions: Conditions
    machine: Machine
    versions: Versions
    runs: list[Run]
    added: list[Added]


def main(
    rounds: Annotated[int, typer.Option(min=2, max=10, help="Loads of each way.")] = 7,
    seconds: Annotated[float, typer.Option(min=5, help="Length of a load, its warm-up left out.")] = SECONDS,
    seed: Annotated[int, typer.Option(help="Of arrivals and orders.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure p50 and p99 straight to the pods and through Envoy."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    order = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    runs = []
    with _twin() as addresses:
        for number in range(rounds):
            for way, protocol in order.sample(WAYS, len(WAYS)):
                runs.append(asyncio.run(_measure(way, protocol, number, addresses[way], seconds, seed + number)))
                typer.echo(runs[-1].model_dump_json())
    report = Report(
        started=started,
        finished=datetime.now(UTC),
        rate=RATE,
        seconds=seconds,
        goal_ms=GOAL_MS,
        seed=seed,
        conditions=made,
        machine=record.machine(made.load_before, server_on_loopback=True),
        versions=record.versions(SERVER_VERSION),
        runs=runs,
        added=added(runs),
    )
    for one in report.added:
        typer.echo(f"{one.protocol}, {one.percentile}: {one.ms[0]:.2f} ms more ({one.ms[1]:.2f} to {one.ms[2]:.2f})")
    typer.echo(f"written: {write(report, 'gateway', started, results)}")


def added(runs: Sequence[Run]) -> list[Added]:
    """Return what Envoy adds, by protocol and percentile, of runs that are as many for each way."""
    found = []
    for protocol, percentile in _FIGURES:
        by_round: dict[int, dict[Way, float]] = {}
        for one in runs:
            if one.protocol == protocol:
                by_round.setdefault(one.round, {})[one.way] = one.p50_ms if percentile == "p50" else one.p99_ms
        ms = interval([both["gateway"] - both["pod"] for both in by_round.values()])
        found.append(Added(protocol=protocol, percentile=percentile, ms=ms))
    return found


async def _measure(way: Way, protocol: Protocol, number: int, hosts: Sequence[str], seconds: float, seed: int) -> Run:
    schedule = Schedule.poisson(RATE, WARM_UP_SECONDS + seconds, seed)
    sender = _http(hosts) if protocol == "http" else _grpc(hosts)
    async with sender as send:
        result = (await run(schedule, send)).after(WARM_UP_SECONDS)
    account = result.account()
    if account.answered != account.sent:
        raise SystemExit(f"error: of {account.sent} requests {account.answered} were answered: {result.errors}")
    return Run(
        way=way,
        protocol=protocol,
        round=number,
        requests=account.sent,
        p50_ms=round(result.percentile_ms(50), 3),
        p99_ms=round(result.percentile_ms(99), 3),
        late_p95_ms=round(result.late_ms(95), 3),
    )


def _grpc(hosts: Sequence[str]) -> AbstractAsyncContextManager[Send]:
    tensor = InferInput(INPUT, [1, len(VALUES)], "FP32")
    tensor.set_data_from_numpy(np.array([VALUES], np.float32))
    return grpc_sender([f"{host}:{TRITON_GRPC_PORT}" for host in hosts], MODEL, [tensor], headers=headers(MODEL))


@asynccontextmanager
async def _http(hosts: Sequence[str]) -> AsyncIterator[Send]:
    body = {"inputs": [{"name": INPUT, "shape": [1, len(VALUES)], "datatype": "FP32", "data": VALUES}]}
    urls = [f"http://{host}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/infer" for host in hosts]
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:

        async def send(number: int) -> None:
            try:
                answer = await client.post(urls[number % len(urls)], json=body)
            except httpx.HTTPError as error:
                raise RequestFailed(type(error).__name__) from None
            if answer.status_code != httpx.codes.OK:
                raise RequestFailed(str(answer.status_code))

        yield send


@contextmanager
def _twin() -> Iterator[dict[Way, list[str]]]:
    """Have a twin with a gateway; yield where its pods and its Envoys listen."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        home = Path(folder) / "twin"
        command = [sys.executable, "-m", "twin"]
        environment = {**os.environ, "TWIN_HOME": str(home)}
        try:
            subprocess.run([*command, "up", "--gateway"], cwd=REPOSITORY, env=environment, check=True)
            pods = [pod for pod in Servers.running(TwinHome(home)).cluster().pods() if pod.listens and pod.ready]
            yield {
                "pod": [pod.listens for pod in pods if pod.namespace == TRITON_NAMESPACE and pod.name.startswith("triton-")],
                "gateway": [pod.listens for pod in pods if pod.namespace == GATEWAY_NAMESPACE],
            }
        finally:
            subprocess.run([*command, "down"], cwd=REPOSITORY, env=environment, check=False)


if __name__ == "__main__":
    typer.run(main)
