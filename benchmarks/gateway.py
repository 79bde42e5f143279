"""Measure the gateway's added latency: directly to Triton's pods against through Envoy, HTTP and gRPC.

    python benchmarks/gateway.py

The program brings up a twin with a gateway (benchmarks/gateway_ways.py) and sends loads of one protocol. Each request
randomly goes directly to a pod, through an Envoy with only a route, or through the gateway, so other work on the machine
affects all ways alike. benchmarks/RESULTS.md has the results.

Fixed before the first run; record each change in benchmarks/README.md:

* metric: p99 of all requests through the gateway minus p99 of all direct requests, and the same for p50, by protocol. Also
  the bare Envoy minus the pods (a hop on this machine), and the gateway minus the bare Envoy. The 95 % interval comes from
  2,000 resamples of the seconds of all loads, each with its requests of all ways. A latency starts when the request was
  sent; the generator's delay is excluded, and recorded;
* GOAL_MS, the rate, the length of a load, and the model: `classify`, which answers in about a millisecond.

A run is refused if one request had no answer.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.gateway_ways import PROTOCOLS, SERVER_VERSION, WAYS, Protocol, Way, Ways, twin  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, Record, conditions, write  # noqa: E402
from modelctl.loadgen import Result, Schedule, run  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402

GOAL_MS = 1.0
"""The most that the gateway may add at p99."""
RATE, SECONDS, WARM_UP_SECONDS = 50.0, 30.0, 3.0
"""Requests/s of each way; a load has three times as many."""
RESAMPLES = 2000
METHOD = "all ways in each load, by chance for each request; the interval is that of 2,000 resamples of seconds"

Percentile = Literal["p50", "p99"]
COMPARED: tuple[tuple[Way, Way], ...] = (("gateway", "pod"), ("proxy", "pod"), ("gateway", "proxy"))
Latencies = Mapping[Way, npt.NDArray[np.float64]]
"""Of one second of a load, in ms, by way."""


class Run(Record):
    """The requests of one way in one load, without its warm-up; all were answered."""

    way: Way
    protocol: Protocol
    round: int
    requests: int
    p50_ms: float
    p99_ms: float
    late_p95_ms: float


class Added(Record):
    """The added latency of a percentile between two ways, with its 95 % interval."""

    protocol: Protocol
    percentile: Percentile
    way: Way
    beside: Way
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
    """Measure p50 and p99 directly to the pods, through a bare Envoy and through the gateway."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    order = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    runs: list[Run] = []
    parts: dict[Protocol, list[Latencies]] = {protocol: [] for protocol in PROTOCOLS}
    with twin() as hosts:
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
        more = f"{one.ms[0]:.2f} ms more ({one.ms[1]:.2f} to {one.ms[2]:.2f})"
        typer.echo(f"{one.protocol}, {one.percentile}, {one.way} beside {one.beside}: {more}")
    typer.echo(f"written: {write(report, 'gateway', started, results)}")


def by_second(result: Result, ways: Sequence[Way]) -> list[Latencies]:
    """Return a load's latencies per second; `ways` has the way of each outcome."""
    seconds: dict[int, dict[Way, list[float]]] = {}
    for outcome, way in zip(result.outcomes, ways, strict=True):
        assert outcome.sent is not None and outcome.done is not None
        of_second = seconds.setdefault(int(outcome.due), {one: [] for one in WAYS})
        of_second[way].append((outcome.done - outcome.sent) * 1000)
    return [{way: np.array(found) for way, found in of_second.items()} for of_second in seconds.values()]


def added(protocol: Protocol, seconds: Sequence[Latencies], seed: int) -> list[Added]:
    """Return the differences of p50 and p99 between ways, from the seconds of all loads."""
    random_seconds = np.random.default_rng(seed)
    resamples = [
        seconds,
        *([seconds[i] for i in random_seconds.integers(0, len(seconds), len(seconds))] for _ in range(RESAMPLES)),
    ]
    found = np.array([_percentiles(resample) for resample in resamples])
    names: tuple[Percentile, ...] = ("p50", "p99")
    rows = []
    for way, other in COMPARED:
        longer = found[:, WAYS.index(way)] - found[:, WAYS.index(other)]
        low, high = np.percentile(longer[1:], (2.5, 97.5), axis=0)
        for i, name in enumerate(names):
            ms = (float(longer[0, i]), float(low[i]), float(high[i]))
            rows.append(Added(protocol=protocol, percentile=name, way=way, beside=other, ms=ms))
    return rows


def _percentiles(seconds: Sequence[Latencies]) -> npt.NDArray[np.float64]:
    """Return p50 and p99 of each way."""
    return np.array([np.percentile(np.concatenate([one[way] for one in seconds]), (50, 99)) for way in WAYS])


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


async def _measure(protocol: Protocol, hosts: Ways, seconds: float, seed: int) -> tuple[Result, list[Way]]:
    """Send one load and require all answers; return it without its warm-up, and the way of each request."""
    schedule = Schedule.poisson(len(WAYS) * RATE, WARM_UP_SECONDS + seconds, seed)
    chance = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
    ways = [chance.choice(WAYS) for _ in schedule.due]
    async with AsyncExitStack() as stack:
        senders = {way: await stack.enter_async_context(hosts.sender(way, protocol)) for way in WAYS}
        gc.collect()
        gc.disable()
        try:
            whole = await run(schedule, lambda number: senders[ways[number]](number))
        finally:
            gc.enable()
    result = whole.after(WARM_UP_SECONDS)
    account = result.account()
    if account.answered != account.sent:
        raise SystemExit(f"error: of {account.sent} requests {account.answered} were answered: {result.errors}")
    return result, ways[-len(result.outcomes) :]


if __name__ == "__main__":
    typer.run(main)
