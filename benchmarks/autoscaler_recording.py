"""Record a twin's real autoscaler under samples of `twin replay`, for its tests.

    export TWIN_HOME=$PWD/.twin-recorded
    python benchmarks/autoscaler_recording.py prepare
    make up AUTOSCALING=1
    python benchmarks/autoscaler_recording.py record tests/twin/replay/recordings/keda-traces.json
    python benchmarks/autoscaler_recording.py record --trace step --trace step --seconds 180 steps.json
    python benchmarks/autoscaler_recording.py record --trace slow-pod tests/twin/replay/recordings/keda-slow-pod.json
    python benchmarks/autoscaler_recording.py steps steps.json

`prepare` gives the twin six pods and the targets that are derived for every stack. `record` sends one trace after the other,
each compressed to some minutes. Twice a second it reads KEDA's numbers for the HorizontalPodAutoscaler, the desired replicas
and the ready pods. After each trace it reads all samples that Prometheus scraped and recorded since the beginning, and
writes the file. So an aborted run keeps the earlier traces. `steps` prints, for each trace `step`, the seconds until a
second pod was wanted, split by cause.
"""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks import slow_pod  # noqa: E402
from modelctl.loadgen import Schedule  # noqa: E402
from spec.files import rewrite  # noqa: E402
from spec.names import TRITON_DEPLOYMENT, TRITON_NAMESPACE  # noqa: E402
from spec.prometheus.rule import series  # noqa: E402
from spec.scaling.signal import NEEDED, RECORDINGS, SPARE_PODS  # noqa: E402
from twin.cluster import certificates, quantity  # noqa: E402
from twin.cluster.certificates import Pki  # noqa: E402
from twin.cluster.kube_api import KubeApi, KubeClient  # noqa: E402
from twin.cluster.kube_errors import ApiError  # noqa: E402
from twin.engine import stack_files  # noqa: E402
from twin.host import claim  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402
from twin.load import requests  # noqa: E402
from twin.load.requests import RequestLoad  # noqa: E402
from twin.replay import samples  # noqa: E402
from twin.replay.hpa import TOLERANCE  # noqa: E402
from twin.replay.traces import Rates  # noqa: E402
from twin.services import release_sources  # noqa: E402
from twin.services.release_sources import SLOW_MODEL  # noqa: E402
from twin.services.servers import Servers  # noqa: E402

COUNTERS: Mapping[str, Mapping[str, str]] = {
    "nv_inference_request_success": {},
    "nv_inference_exec_count": {},
    "nv_inference_compute_infer_duration_us": {},
    "nv_inference_request_failure": {"reason": "REJECTED"},
}
"""With the labels of the counted series."""
SYNC_SECONDS = 5
"""`--horizontal-pod-autoscaler-sync-period` of the twin (twin/cluster/control_plane.py)."""
PEAK = 20.0
"""Requests/s for five pods that answer serially in 155 ms and may be busy 70 % of the time."""
MOST_PODS = 6
SLOW_POD = "slow-pod"
TRACES = tuple(name for name in samples.OBSERVED if name != SLOW_POD)
"""The default. `slow-pod` is recorded separately, on a twin without earlier load."""
EXECUTION_SECONDS = 0.155
"""Seconds of a request executed by itself (twin/models/timed_batch/config.pbtxt)."""
STEP, STEP_RATE, STEP_SECONDS = "step", 10.0, 60
"""No load, so one pod is enough, then this many requests/s for the last seconds of the trace."""
_LOOK_SECONDS = 0.5
_IN = f"namespaces/{TRITON_NAMESPACE}"
_PODS = f"app.kubernetes.io/name={TRITON_DEPLOYMENT}"

app = typer.Typer(no_args_is_help=True, add_completion=False)


@dataclass
class Recording:
    """Changes, in seconds since the beginning. `sections`: each trace's name, beginning and end.

    `slow_pod`: the times at which the first pod became slow and normal again.
    """

    names: dict[str, str]
    begun: float = field(default_factory=time.time)
    wanted: list[tuple[float, int]] = field(default_factory=list)
    ready: list[tuple[float, int]] = field(default_factory=list)
    values: dict[str, list[tuple[float, float | None]]] = field(default_factory=dict)
    sections: list[tuple[str, float, float]] = field(default_factory=list)
    slow_pod: tuple[float, float] | None = None

    @property
    def now(self) -> float:
        """Return the seconds since the beginning."""
        return round(time.time() - self.begun, 2)

    def look(self, api: KubeClient) -> None:
        """Record the changes since the last look."""
        at = self.now
        deployment = api.get(f"/apis/apps/v1/{_IN}/deployments/{TRITON_DEPLOYMENT}")
        for found, number in (
            (self.wanted, deployment["spec"]["replicas"]),
            (self.ready, deployment["status"].get("readyReplicas", 0)),
        ):
            if not found or found[-1][1] != number:
                found.append((at, int(number)))
        for metric, trigger in self.names.items():
            value, changes = _told(api, metric), self.values.setdefault(trigger, [])
            if not changes or changes[-1][1] != value:
                changes.append((at, value))


@app.command()
def prepare() -> None:
    """Give the twin of TWIN_HOME, before its first `make up`, pods and targets for the recording."""
    home = TwinHome.from_environment()
    claim.claim(home.path)
    pool = {"name": "g5", "instanceTypes": ["g5.xlarge"], "capacity": "on-demand", "diskGiB": 200}
    for key, value in {
        "triton-eks:gpu.pools": [{**pool, "min": 1, "desired": MOST_PODS, "max": MOST_PODS}],
        "triton-eks:autoscaling.maxReplicas": MOST_PODS,
        "triton-eks:autoscaling.targets": {},
        "triton-eks:autoscaling.sparePods": SPARE_PODS,
    }.items():
        stack_files.pin(home, stack_files.STACK, key, value)


@app.command()
def record(
    file: Annotated[Path, typer.Argument(help="where the recording is written")],
    seconds: Annotated[int, typer.Option(min=120, help="the length of each trace")] = 360,
    trace: Annotated[list[str] | None, typer.Option(help="a sample, may come again; default: all but slow-pod")] = None,
) -> None:
    """Send the traces to the twin of TWIN_HOME, and write what its autoscaler saw and did."""
    wanted = trace or list(TRACES)
    unknown = [name for name in wanted if name not in (*TRACES, SLOW_POD, STEP)]
    if unknown:
        known = ", ".join((*TRACES, SLOW_POD, STEP))
        raise typer.BadParameter(f"there is no {unknown[0]}; give some of {known}", param_hint="--trace")
    home = TwinHome.from_environment()
    servers = Servers.running(home)
    api = servers.cluster().client
    scaled = api.get(f"/apis/keda.sh/v1alpha1/{_IN}/scaledobjects/{TRITON_DEPLOYMENT}")
    recording = Recording(
        {f"s{place}-prometheus": trigger["name"] for place, trigger in enumerate(scaled["spec"]["triggers"])}
    )
    head = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": _revision(),
        "command": shlex.join(["python", *sys.argv]),
        "syncSeconds": SYNC_SECONDS,
        "stepAt": seconds - STEP_SECONDS,
        "scaledObject": scaled["spec"],
    }
    for name in wanted:
        asyncio.run(_section(home, api, recording, name, seconds))
        _write(file, {**head, **_document(recording), **_prometheus(servers.prometheus_urls()[0], recording)})


@app.command()
def steps(file: Annotated[Path, typer.Argument(help="a recording with traces `step`")]) -> None:
    """Print, in seconds from each step of load, what was seen of it and when."""
    recording = json.loads(file.read_text())
    print("| scraped | recorded | told to the autoscaler | a second pod wanted | ready |\n|---:|---:|---:|---:|---:|")
    for name, begins, _ in recording["sections"]:
        if name == STEP:
            print(f"| {' | '.join(f'{at:.1f}' for at in seconds_of_step(recording, begins))} |")


def seconds_of_step(recording: Mapping[str, Any], begins: float) -> tuple[float, ...]:
    """Return when the load was first scraped, recorded and reported to the autoscaler; a second pod wanted; one ready.

    The second and third times count values that require another pod: a tenth above the target.
    """
    loaded = begins + recording["stepAt"]
    busy = f"busy-{SLOW_MODEL}"
    (asked,) = (one["metadata"] for one in recording["scaledObject"]["triggers"] if one["name"] == busy)
    enough, added = (1 + TOLERANCE) * float(asked["threshold"]), float(asked["query"].partition(" + ")[2] or 0)

    def first(changes: Iterable[Sequence[float]], least: float) -> float:
        return min((at for at, value in changes if at >= loaded and value is not None and value > least), default=math.inf)

    counters = recording["samples"]["nv_inference_request_success"].values()
    scraped = min(
        (
            after[0]
            for of_pod in counters
            for before, after in pairwise(of_pod)
            if after[0] >= loaded and after[1] > before[1]
        ),
        default=math.inf,
    )
    (needed,) = (name for name in recording["samples"] if name.startswith(NEEDED.series))  # older ones: `rate30s`
    recorded = min(first(of_pod, enough - added) for of_pod in recording["samples"][needed].values())
    told = first(recording["values"][busy], enough)
    wanted, ready = (first(recording[name], 1) for name in ("wanted", "ready"))
    return tuple(round(at - loaded, 1) for at in (scraped, recorded, told, wanted, ready))


def compressed(name: str, seconds: int) -> Rates:
    """Return a sample in this many seconds, in requests/s. For the day: its curve, with separate bursts of 20 to 40 s."""
    if name == STEP:
        return np.repeat([0.0, STEP_RATE], [seconds - STEP_SECONDS, STEP_SECONDS])
    if name == "diurnal":
        rates = 0.45 - 0.3 * np.cos(2 * np.pi * (np.arange(seconds) / seconds - 1 / 6))
        source = np.random.default_rng(17)
        for begins in source.integers(0, seconds, 4):
            length, height = source.integers(20, 40), source.uniform(0.3, 0.8)
            rates[begins : begins + length] += height
        return PEAK * rates
    rates = samples.sample(name, {SLOW_MODEL: PEAK}).rates[SLOW_MODEL]
    return rates[np.arange(seconds) * len(rates) // seconds]


def schedule(rates: Rates, seed: int) -> Schedule:
    """Return independent clients whose rates change every second."""
    source = np.random.default_rng(seed)
    due = [np.sort(second + source.random(source.poisson(rate))) for second, rate in enumerate(rates)]
    return Schedule(tuple(np.concatenate(due).tolist()), len(rates))


async def _section(home: TwinHome, client: KubeClient, recording: Recording, name: str, seconds: int) -> None:
    api = KubeApi(home.load_endpoints().api_server_url or "", Pki(home.pki).client_context(certificates.ADMIN))
    try:
        inputs = requests.inputs_of(requests.model_of(release_sources.directory(home), SLOW_MODEL))
        due = schedule(compressed(name, seconds), len(recording.sections))
        load, begins = RequestLoad(api, due, SLOW_MODEL, inputs, {TRITON_DEPLOYMENT: 1}), recording.now
        sending = asyncio.create_task(load.run())
        if name == SLOW_POD:
            slow = samples.sample(name, {SLOW_MODEL: PEAK})
            assert slow.slow_pod is not None
            first, last = (begins + at * seconds / slow.seconds for at in (slow.slow_pod.begins, slow.slow_pod.ends))
            await _look(recording, client, lambda: recording.now >= first)
            pods = await asyncio.to_thread(client.get, f"/api/v1/{_IN}/pods", labelSelector=_PODS)
            oldest = min(pods["items"], key=lambda pod: pod["metadata"]["creationTimestamp"])
            async with slow_pod.slowed(slow_pod.stubs_of(oldest), EXECUTION_SECONDS, slow.slow_pod.factor):
                since = recording.now
                await _look(recording, client, lambda: recording.now >= last)
            recording.slow_pod = (since, recording.now)
        await _look(recording, client, lambda: recording.now >= begins + seconds and sending.done())
        await sending
    finally:
        await api.close()
    recording.sections.append((name, begins, recording.now))
    failed = load.tally.failures
    print(
        f"{name}: {len(load.tally.answered)} answered, {failed.total()} failed {dict(failed)}, {recording.wanted}",
        flush=True,
    )


async def _look(recording: Recording, client: KubeClient, until: Callable[[], bool]) -> None:
    while not until():
        await asyncio.to_thread(recording.look, client)
        await asyncio.sleep(_LOOK_SECONDS)


def _told(api: KubeClient, metric: str) -> float | None:
    """Return the number of KEDA's metrics server; None for an error, its response without a number."""
    selector = f"scaledobject.keda.sh/name={TRITON_DEPLOYMENT}"
    try:
        found = api.get(f"/apis/external.metrics.k8s.io/v1beta1/{_IN}/{metric}", labelSelector=selector)
    except ApiError:
        return None
    return float(quantity.parse(found["items"][0]["value"]))


def _document(recording: Recording) -> dict[str, Any]:
    names = ("sections", "wanted", "ready", "values")
    slow = {"slowPod": recording.slow_pod} if recording.slow_pod is not None else {}
    return {"seconds": recording.now, **slow, **{name: getattr(recording, name) for name in names}}


def _prometheus(url: str, recording: Recording) -> dict[str, Any]:
    """Return the samples since the beginning by metric and pod: seconds from the beginning, and value."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    begun, now = recording.begun, time.time()
    for metric, labels in (*COUNTERS.items(), *((recorded.series, {}) for recorded in RECORDINGS)):
        query = f"{series(metric, model=SLOW_MODEL, **labels)}[{int(now - begun)}s]"
        with httpx.Client(trust_env=False, timeout=30) as client:
            answer = client.get(f"{url}/api/v1/query", params={"query": query, "time": str(now)}).raise_for_status()
        found[metric] = {
            element["metric"]["pod"]: [
                (round(at - begun, 3), float(f"{float(value):.12g}")) for at, value in element["values"]
            ]
            for element in answer.json()["data"]["result"]
        }
    return {"samples": found}


def _write(file: Path, document: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rewrite(file, (json.dumps(document, separators=(",", ":")).replace(',"', ',\n"') + "\n").encode())


def _revision() -> str:
    git = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(git, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    app()
