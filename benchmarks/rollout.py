"""Measure what clients see while a model changes on three real servers: `modelctl rollout`, poll mode, all loads at once.

    python benchmarks/rollout.py

Every round takes the three ways in turn, each on fresh servers under the same arrivals. benchmarks/rollout.md has the
results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import boto3
import httpx
import numpy as np
import typer
from tritonclient.grpc import InferInput

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.local_process import free_port  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, Record, conditions, write  # noqa: E402
from benchmarks.rollout_servers import EXPLICIT, Servers, local_servers  # noqa: E402
from modelctl.loadgen import Result, Schedule, grpc_sender, run  # noqa: E402
from modelctl.release.publish import release  # noqa: E402
from modelctl.rollout import configs  # noqa: E402
from modelctl.rollout.controller import Controller, Wanted  # noqa: E402
from modelctl.rollout.lease import Lease  # noqa: E402
from modelctl.rollout.limits import Limits  # noqa: E402
from modelctl.rollout.pod_client import PodClient  # noqa: E402
from modelctl.store.bucket import Store, open_store  # noqa: E402
from modelctl.store.live import LiveRepository  # noqa: E402
from modelctl.store.manifest import Manifest  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402

BUCKET, MODEL = "models", "model"
SERVERS, SERVER_VERSION = 3, "2.51.0"
POLL_SECONDS = 5
"""As in the chart of Triton's own repository."""
_STEADY_SECONDS = 3.0
_LONGEST_SECONDS = 120.0
_LONGEST_ANSWER_SECONDS = 15.0
"""More than a request's deadline, so each request has an outcome before the servers stop."""
_CODE = '''\
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        """A small model's load."""
        time.sleep(1)

    def execute(self, requests):
        time.sleep(0.005)
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor + {version})]) for tensor in tensors]
'''
_CONFIG = """\
backend: "python"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching { default_queue_policy {
  timeout_action: REJECT default_timeout_microseconds: 2000000 max_queue_size: 256
} }
"""
_GOLDEN = """\
{{"inputs": {{"IN": {{"datatype": "FP32", "shape": [1, 1], "data": [1.0]}}}},
 "outputs": {{"OUT": {{"datatype": "FP32", "shape": [1, 1], "data": [{answer}]}}}}}}
"""

Way = Literal["rollout", "poll", "load at once"]
WAYS: tuple[Way, ...] = ("rollout", "poll", "load at once")


class Run(Record):
    """One change of version under load: requests = answered + failed + shed.

    `wrong`: answers of the old version to requests sent after the new one had answered anywhere. `width_ms`: from the first
    answer of the new version to the last of the old one; negative if the last old answer came first. `change_seconds`: from
    the order to the last answer of the old version.
    """

    way: Way
    round: int
    requests: int
    answered: int
    failed: int
    shed: int
    errors: dict[str, int]
    wrong: int
    width_ms: float
    change_seconds: float
    p95_ms: float | None
    max_ms: float | None


class Report(Record):
    """The whole measurement."""

    kind: str = "rollout"
    started: datetime
    finished: datetime
    servers: int
    rate: float
    seed: int
    poll_seconds: int
    conditions: Conditions
    machine: Machine
    versions: Versions
    runs: list[Run]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Changes of version in each way.")] = 5,
    rate: Annotated[float, typer.Option(min=1, help="Requests/s over the three servers.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the arrivals.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Change a model's version under load in three ways, and count what clients see."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-west-2")  # noqa: S106
    runs = []
    with tempfile.TemporaryDirectory(prefix="rollout-") as folder:
        for number in range(rounds):
            for way in WAYS:
                directory = Path(folder) / f"{number}-{way.replace(' ', '-')}"
                runs.append(_measure(way, number, rate, seed + number, directory, Path(folder) / "cache"))
                typer.echo(_line(runs[-1]))
    report = Report(
        started=started,
        finished=datetime.now(UTC),
        servers=SERVERS,
        rate=rate,
        seed=seed,
        poll_seconds=POLL_SECONDS,
        conditions=made,
        machine=record.machine(made.load_before, server_on_loopback=True),
        versions=record.versions(SERVER_VERSION),
        runs=runs,
    )
    typer.echo(f"written: {write(report, 'rollout', started, results)}")


def _measure(way: Way, number: int, rate: float, seed: int, directory: Path, cache: Path) -> Run:
    with _bucket(directory) as endpoint:
        store = open_store(BUCKET, endpoint)
        first, second = (_publish(store, directory / f"models-{version}", version) for version in (1, 2))
        poll = ("--model-control-mode=poll", f"--repository-poll-secs={POLL_SECONDS}")
        mode = poll if way == "poll" else EXPLICIT
        with local_servers(directory / "fleet", cache, f"s3://{endpoint}/{BUCKET}/live", mode) as servers:
            _roll(store, servers, first)
            # Pods start at different times, so polling servers poll at different moments.
            phases = random.Random(seed)  # noqa: S311 (repeatable, nothing secret)
            for _ in range(SERVERS):
                time.sleep(phases.uniform(0, POLL_SECONDS / 2))
                servers.start(1)
            servers.until_ready(MODEL)
            order = {
                "rollout": lambda: _roll(store, servers, second),
                "poll": lambda: _write(store, second),
                "load at once": lambda: _load_at_once(store, servers, second),
            }[way]
            ordered, begun, result = asyncio.run(_under_load(way, servers, rate, seed, order))
    return _judge(way, number, ordered - begun, result)


async def _under_load(
    way: Way, servers: Servers, rate: float, seed: int, order: Callable[[], None]
) -> tuple[float, float, Result]:
    """Return when the change was ordered, when the load began (monotonic clock), and the requests' outcomes.

    In a rollout, clients request the published version each time; in the other ways the server chooses.
    """
    tensor = InferInput("IN", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
    version = (lambda: str(servers.fleet.served()[MODEL].stable)) if way == "rollout" else ""
    over = asyncio.Event()
    async with grpc_sender(servers.grpc_addresses(), MODEL, [tensor], version=version) as send:
        begun = time.monotonic()
        schedule = Schedule.poisson(rate, _LONGEST_SECONDS, seed)
        load = asyncio.create_task(run(schedule, send, drain_seconds=_LONGEST_ANSWER_SECONDS, end=over))
        await asyncio.sleep(_STEADY_SECONDS)
        ordered = time.monotonic()
        await asyncio.to_thread(order)
        await asyncio.to_thread(_until_changed, servers)
        await asyncio.sleep(_STEADY_SECONDS)
        over.set()
        return ordered, begun, await load


def _judge(way: Way, number: int, ordered: float, result: Result) -> Run:
    account = result.account()
    new = [outcome for outcome in result.outcomes if outcome.tag == "2"]
    old = [outcome for outcome in result.outcomes if outcome.tag == "1"]
    changed = min(outcome.done for outcome in new if outcome.done is not None)
    last = max(outcome.done for outcome in old if outcome.done is not None)
    summary = result.summary()
    return Run(
        way=way,
        round=number,
        requests=account.sent,
        answered=account.answered,
        failed=account.failed,
        shed=account.shed,
        errors=result.errors,
        wrong=sum(outcome.sent is not None and outcome.sent > changed for outcome in old),
        width_ms=round((last - changed) * 1000, 1),
        change_seconds=round(last - ordered, 2),
        p95_ms=summary.p95_ms,
        max_ms=summary.max_ms,
    )


def _line(run: Run) -> str:
    return (
        f"round {run.round}, {run.way}: {run.requests} requests, {run.failed} failed, {run.shed} shed, "
        f"{run.wrong} of the wrong version, width {run.width_ms:g} ms, changed after {run.change_seconds:g} s, "
        f"p95 {run.p95_ms} ms, max {run.max_ms} ms"
    )


def _roll(store: Store, servers: Servers, manifest: Manifest) -> None:
    limits = Limits(load=60, restart=60, watch=0, drain=60, quiet=1, settle=30, poll=0.1)
    controller = Controller(store, servers.fleet, Wanted("local"), limits=limits)
    with Lease(LiveRepository(store)) as lease:
        controller.rollout(manifest.id, lease)


def _write(store: Store, manifest: Manifest) -> None:
    """Write the new version and the config that names it, for servers that poll for changes."""
    live = LiveRepository(store)
    for key, entry in manifest.objects.items():
        if key.startswith(f"{MODEL}/2/"):
            live.copy(manifest.id, key, entry)
    live.write_config(MODEL, configs.to_text(_config(2)))


def _load_at_once(store: Store, servers: Servers, manifest: Manifest) -> None:
    """Call the load API of all servers at the same time."""
    _write(store, manifest)
    config = configs.to_json(_config(2))

    def load(number: int) -> None:
        with PodClient(servers.fleet.pods()[number]) as client:
            client.load(MODEL, config, 60)

    with ThreadPoolExecutor(SERVERS) as pool:
        list(pool.map(load, range(SERVERS)))


def _config(version: int) -> configs.ModelConfig:
    return configs.serving(configs.parse(_CONFIG), [version])


def _until_changed(servers: Servers) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        clients = [PodClient(pod) for pod in servers.fleet.pods()]
        with contextlib.ExitStack() as stack:
            if all(stack.enter_context(client).ready_versions().get(MODEL) == [2] for client in clients):
                return
        time.sleep(0.2)
    raise TimeoutError("version 2 did not come to be the only one on every server within 60 s")


def _publish(store: Store, directory: Path, version: int) -> Manifest:
    folder = directory / MODEL / str(version)
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(_CODE.format(version=version))
    (folder / "golden.json").write_text(_GOLDEN.format(answer=1.0 + version))
    (folder.parent / "config.pbtxt").write_text(_CONFIG)
    return release(directory, store)


@contextlib.contextmanager
def _bucket(directory: Path) -> Iterator[str]:
    """Run moto in a separate process, with the bucket; yield its URL."""
    directory.mkdir(parents=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (directory / "moto.log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _until_answering(url)
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=url)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _until_answering(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url, trust_env=False)
            return
        time.sleep(0.05)
    raise TimeoutError(f"moto does not answer at {url}")


if __name__ == "__main__":
    typer.run(main)
