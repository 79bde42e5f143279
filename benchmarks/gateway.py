"""Measure the time that the gateway adds to a request: straight to the pods of Triton against through Envoy, HTTP and gRPC.

    python benchmarks/gateway.py

brings a twin with a gateway up (`python -m twin up --gateway`, in a home of its own), and sends loads of one protocol, in
which a coin says of each request whether it goes straight to a pod or through an Envoy: what else the machine does meanwhile
meets both ways alike. Requests go to all pods, or to all Envoys, in turn. The load balancer in front of Envoy is left out,
because on the twin it is a program of ours. benchmarks/RESULTS.md says what came out.

Fixed here before the first run; who changes one of them writes a new entry in benchmarks/README.md:

* metric: p99 of all requests through Envoy minus p99 of all that went straight to the pods, and the same of p50, by
  protocol; the 95 % interval is that of 2,000 resamples of the seconds of all loads, each with its requests of both ways. A
  latency counts from the moment at which a request was sent: how late the generator was is in neither way, and recorded;
* GOAL_MS, the rate, the length of a load, and the model: `classify`, which answers in about a millisecond.

Every request is accounted for: a run in which one had no answer is refused.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Literal

import aiohttp
import numpy as np
import numpy.typing as npt
import typer
from tritonclient.grpc import InferInput

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Conditions, Record, conditions, write  # noqa: E402
from examples.gateway import headers  # noqa: E402
from modelctl.loadgen import RequestFailed, Result, Schedule, Send, grpc_sender, run  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402
from twin.services.servers import Servers  # noqa: E402

GOAL_MS = 1.0
"""The most that the gateway may add at p99."""
RATE, SECONDS, WARM_UP_SECONDS = 50.0, 30.0, 3.0
"""Requests a second of each way, so that a load has twice as many."""
RESAMPLES = 2000
METHOD = "both ways in each load, a coin for each request; the interval is that of 2,000 resamples of seconds"
MODEL, INPUT, VALUES = "classify", "NORMALIZED", [5.25, 3.5, 1.75, 0.25]
SERVER_VERSION = "2.51.0"

Way = Literal["pod", "gateway"]
Protocol = Literal["http", "grpc"]
Percentile = Literal["p50", "p99"]
WAYS: tuple[Way, ...] = ("pod", "gateway")
PROTOCOLS: tuple[Protocol, ...] = ("http", "grpc")
Latencies = Mapping[Way, npt.NDArray[np.float64]]
"""Of one second of a load, in ms, by way."""


class Run(Record):
    """The requests of one way in one load, without its warm-up: all of them were answered."""

    way: Way
    protocol: Protocol
    round: int
    requests: int
    p50_ms: float
    p99_ms: float
    late_p95_ms: float


class Added(Record):
    """Hold how much longer a percentile is through Envoy, with the ends of the 95 % interval."""

    protocol: Protocol
    percentile: Percentile
    ms: tuple[float, float, float]


class Report(Record):
    """The whole measurement."""

    kind: str = "gateway"
    method: str = METHOD
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
    rounds: Annotated[int, typer.Option(min=1, help="Loads of each protocol.")] = 10,
    seconds: Annotated[float, typer.Option(min=5, help="Length of a load, its warm-up left out.")] = SECONDS,
    seed: Annotated[int, typer.Option(help="Of arrivals and orders.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure p50 and p99 straight to the pods and through Envoy."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    order = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    runs: list[Run] = []
    parts: dict[Protocol, list[Latencies]] = {protocol: [] for protocol in PROTOCOLS}
    with _twin() as hosts:
        for number in range(rounds):
            for protocol in order.sample(PROTOCOLS, len(PROTOCOLS)):
                result, ways = asyncio.run(_measure(protocol, hosts, seconds, seed + number))
                parts[protocol] += by_second(result, ways)
                for way in WAYS:
                    runs.append(_run(result, ways, way, protocol, number))
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
        added=[one for protocol in PROTOCOLS for one in added(protocol, parts[protocol], seed)],
    )
    for one in report.added:
        typer.echo(f"{one.protocol}, {one.percentile}: {one.ms[0]:.2f} ms more ({one.ms[1]:.2f} to {one.ms[2]:.2f})")
    typer.echo(f"written: {write(report, 'gateway', started, results)}")


def by_second(result: Result, ways: Sequence[Way]) -> list[Latencies]:
    """Return the latencies of a load, second by second; `ways` has that of each outcome."""
    seconds: dict[int, dict[Way, list[float]]] = {}
    for outcome, way in zip(result.outcomes, ways, strict=True):
        assert outcome.sent is not None and outcome.done is not None
        of_second = seconds.setdefault(int(outcome.due), {"pod": [], "gateway": []})
        of_second[way].append((outcome.done - outcome.sent) * 1000)
    return [{way: np.array(found) for way, found in of_second.items()} for of_second in seconds.values()]


def added(protocol: Protocol, seconds: Sequence[Latencies], seed: int) -> list[Added]:
    """Return what Envoy adds at p50 and p99, of loads second by second."""
    random_seconds = np.random.default_rng(seed)
    resamples = [
        seconds,
        *([seconds[i] for i in random_seconds.integers(0, len(seconds), len(seconds))] for _ in range(RESAMPLES)),
    ]
    found = np.array([_longer(resample) for resample in resamples])
    low, high = np.percentile(found[1:], (2.5, 97.5), axis=0)
    names: tuple[Percentile, ...] = ("p50", "p99")
    return [
        Added(protocol=protocol, percentile=name, ms=(float(found[0, i]), float(low[i]), float(high[i])))
        for i, name in enumerate(names)
    ]


def _longer(seconds: Sequence[Latencies]) -> npt.NDArray[np.float64]:
    pod, gateway = (np.percentile(np.concatenate([one[way] for one in seconds]), (50, 99)) for way in WAYS)
    return gateway - pod


def _run(result: Result, ways: Sequence[Way], way: Way, protocol: Protocol, number: int) -> Run:
    own = replace(result, outcomes=tuple(one for one, its in zip(result.outcomes, ways, strict=True) if its == way))
    p50, p99 = np.percentile(np.concatenate([one[way] for one in by_second(own, [way] * len(own.outcomes))]), (50, 99))
    return Run(
        way=way,
        protocol=protocol,
        round=number,
        requests=len(own.outcomes),
        p50_ms=round(float(p50), 3),
        p99_ms=round(float(p99), 3),
        late_p95_ms=round(own.late_ms(95), 3),
    )


async def _measure(
    protocol: Protocol, hosts: Mapping[Way, Sequence[str]], seconds: float, seed: int
) -> tuple[Result, list[Way]]:
    """Send one load, whose requests must all be answered; return it without its warm-up, and the way of each request."""
    schedule = Schedule.poisson(2 * RATE, WARM_UP_SECONDS + seconds, seed)
    coin = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    ways = [coin.choice(WAYS) for _ in schedule.due]
    sender = _http if protocol == "http" else _grpc
    async with sender(hosts["pod"]) as straight, sender(hosts["gateway"]) as through:
        gc.collect()
        gc.disable()
        try:
            whole = await run(schedule, lambda number: (straight if ways[number] == "pod" else through)(number))
        finally:
            gc.enable()
    result = whole.after(WARM_UP_SECONDS)
    account = result.account()
    if account.answered != account.sent:
        raise SystemExit(f"error: of {account.sent} requests {account.answered} were answered: {result.errors}")
    return result, ways[-len(result.outcomes) :]


def _grpc(hosts: Sequence[str]) -> AbstractAsyncContextManager[Send]:
    tensor = InferInput(INPUT, [1, len(VALUES)], "FP32")
    tensor.set_data_from_numpy(np.array([VALUES], np.float32))
    return grpc_sender([f"{host}:{TRITON_GRPC_PORT}" for host in hosts], MODEL, [tensor], headers=headers(MODEL))


@asynccontextmanager
async def _http(hosts: Sequence[str]) -> AsyncIterator[Send]:
    body = {"inputs": [{"name": INPUT, "shape": [1, len(VALUES)], "datatype": "FP32", "data": VALUES}]}
    urls = [f"http://{host}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/infer" for host in hosts]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as client:

        async def send(number: int) -> None:
            try:
                async with client.post(urls[number % len(urls)], json=body) as answer:
                    await answer.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise RequestFailed(type(error).__name__) from None
            if answer.status != HTTPStatus.OK:
                raise RequestFailed(str(answer.status))

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
