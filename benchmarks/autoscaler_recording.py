"""Record what the real autoscaler of a twin reads and decides under a load, as the test of `twin replay` reads it.

    make up AUTOSCALING=1
    python benchmarks/autoscaler_recording.py tests/twin/replay/recordings/keda-falls.json 8:15 40:45 0:200

sends 8 requests/s for 15 s, then 40 for 45 s, then none for 200 s. Twice a second the number that KEDA tells the
HorizontalPodAutoscaler and the replicas that this one wants are looked at; at the end Prometheus is asked for the samples
that it has scraped and recorded.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from spec.files import rewrite  # noqa: E402
from spec.names import TRITON_DEPLOYMENT, TRITON_NAMESPACE  # noqa: E402
from spec.prometheus.rule import series  # noqa: E402
from spec.scaling.signal import RECORDINGS  # noqa: E402
from twin.cluster import quantity  # noqa: E402
from twin.cluster.kube_api import KubeClient  # noqa: E402
from twin.cluster.kube_errors import ApiError  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402
from twin.services.release_sources import SLOW_MODEL  # noqa: E402
from twin.services.servers import Servers  # noqa: E402

COUNTERS = ("nv_inference_request_success", "nv_inference_exec_count", "nv_inference_compute_infer_duration_us")
SYNC_SECONDS = 5
"""`--horizontal-pod-autoscaler-sync-period` of the twin (twin/cluster/control_plane.py)."""
_IN = f"namespaces/{TRITON_NAMESPACE}"


def main(
    file: Annotated[Path, typer.Argument(help="where the recording is written")],
    load: Annotated[list[str], typer.Argument(metavar="RATE:SECONDS...", help="requests per second, and for how long")],
) -> None:
    """Send a load to the twin of TWIN_HOME, and write what its autoscaler saw and did."""
    phases = [(float(rate), float(seconds)) for rate, _, seconds in (phase.partition(":") for phase in load)]
    home = TwinHome.from_environment()
    servers = Servers.running(home)
    api = servers.cluster().client
    scaled = api.get(f"/apis/keda.sh/v1alpha1/{_IN}/scaledobjects/{TRITON_DEPLOYMENT}")
    names = {f"s{place}-prometheus": trigger["name"] for place, trigger in enumerate(scaled["spec"]["triggers"])}
    started, begun = datetime.now(UTC), time.time()
    wanted: list[tuple[float, int]] = []
    values: dict[str, list[tuple[float, float | None]]] = {trigger: [] for trigger in names.values()}
    for rate, seconds in phases:
        sender = _load(rate, seconds) if rate else None
        ends = time.time() + seconds
        while time.time() < ends or (sender is not None and sender.poll() is None):
            _look(api, time.time() - begun, names, wanted, values)
            time.sleep(0.5)
        if sender is not None and sender.returncode:
            raise SystemExit(f"error: the load of {rate}/s failed; see `python3 -m twin load`")
    document = {
        "started": started.isoformat(timespec="seconds"),
        "revision": _revision(),
        "command": shlex.join(["python", *sys.argv]),
        "syncSeconds": SYNC_SECONDS,
        "scaledObject": scaled["spec"],
        "seconds": round(time.time() - begun, 1),
        "wanted": wanted,
        "values": values,
        **_prometheus(servers.prometheus_urls()[0], begun, time.time()),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, separators=(",", ":")).replace(',"', ',\n"')
    rewrite(file, f"{text}\n".encode())


def _look(
    api: KubeClient,
    at: float,
    names: dict[str, str],
    wanted: list[tuple[float, int]],
    values: dict[str, list[tuple[float, float | None]]],
) -> None:
    """Note what has changed since the last look."""
    at = round(at, 2)
    deployment = api.get(f"/apis/apps/v1/{_IN}/deployments/{TRITON_DEPLOYMENT}")
    replicas = int(deployment["spec"]["replicas"])
    if not wanted or wanted[-1][1] != replicas:
        wanted.append((at, replicas))
    for metric, trigger in names.items():
        value = _told(api, metric)
        if not values[trigger] or values[trigger][-1][1] != value:
            values[trigger].append((at, value))


def _told(api: KubeClient, metric: str) -> float | None:
    """Return the number that KEDA's metrics server has; None for an error, which is what it answers without one."""
    selector = f"scaledobject.keda.sh/name={TRITON_DEPLOYMENT}"
    try:
        found = api.get(f"/apis/external.metrics.k8s.io/v1beta1/{_IN}/{metric}", labelSelector=selector)
    except ApiError:
        return None
    return float(quantity.parse(found["items"][0]["value"]))


def _load(rate: float, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "twin", "load", "--rate", str(rate), "--seconds", str(seconds), "--follow", "0"]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


def _prometheus(url: str, begun: float, now: float) -> dict[str, Any]:
    """Return the samples since the beginning by metric and pod: seconds from the beginning, and the value."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for metric in (*COUNTERS, *(recording.series for recording in RECORDINGS)):
        query = f"{series(metric, model=SLOW_MODEL)}[{int(now - begun)}s]"
        answer = httpx.get(f"{url}/api/v1/query", params={"query": query, "time": str(now)}, timeout=30).raise_for_status()
        found[metric] = {
            element["metric"]["pod"]: [(round(at - begun, 3), float(value)) for at, value in element["values"]]
            for element in answer.json()["data"]["result"]
        }
    return {"samples": found}


def _revision() -> str:
    git = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(git, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    typer.run(main)
