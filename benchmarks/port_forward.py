"""Measure the API server's port forward to a pod, compared with connections to the server itself.

`python benchmarks/port_forward.py` starts a control plane, the twin's kubelet API, and a Triton, all on this machine, and
prints one line for each way. The ways take turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from kubernetes import client, config
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.rollout_servers import HTTP, METRICS, local_servers  # noqa: E402
from console.port_forward import PortForwards  # noqa: E402
from twin.cluster import control_plane  # noqa: E402
from twin.cluster.certificates import Pki  # noqa: E402
from twin.cluster.kubelet import KubeletEndpoint  # noqa: E402
from twin.host import processes, tools  # noqa: E402
from twin.host.home import TwinHome  # noqa: E402

NAMESPACE, NODE, POD = "triton", "node-0", "triton-0"
_TLS = httpx.create_ssl_context(trust_env=False)
ROUNDS, REQUESTS, AT_ONCE, SECONDS = 5, 200, 8, 3.0


def main() -> None:
    """Print p50 and p95 of one request at a time, and the rate of eight clients with one forward each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="port-forward-")))
        (folder / "models").mkdir()
        cache = folder / "cache"
        servers = stack.enter_context(local_servers(folder / "fleet", cache, str(folder / "models"), ()))
        servers.start(1)
        (record,) = _until(servers.fleet.records)
        direct = f"http://{record.address}:{HTTP}"
        _until(lambda: _answers(f"{direct}/v2/health/live"))
        home = TwinHome(folder / "home")
        console = Console(stderr=True)
        stack.callback(processes.stop_all, home, seconds=20)
        control_plane.ensure(home, tools.ensure(["control-plane"], console), console.print)
        api = config.new_client_from_config(str(home.kubeconfig))
        _register(api, Pki(home.pki), record.address)
        forwards = PortForwards(api, NAMESPACE)
        _until(lambda: _forwarded(forwards))
        measured: dict[str, list[float]] = {}
        rates: dict[str, list[float]] = {}
        ways: dict[str, Callable[[], httpx.Client]] = {
            "direct, one connection": lambda: httpx.Client(base_url=direct, trust_env=False),
            "one forward": lambda: httpx.Client(base_url=f"http://{POD}:{HTTP}", transport=forwards.transport()),
        }
        for _ in range(ROUNDS):
            for name, make in ways.items():
                with make() as http:
                    http.get("/v2")
                    measured.setdefault(name, []).extend(_timed(partial(http.get, "/v2")) for _ in range(REQUESTS))
                rates.setdefault(name, []).append(_rate(make, 1))
                rates.setdefault(f"{name}, {AT_ONCE} at once", []).append(_rate(make, AT_ONCE))
            for name, url, transport in (
                ("direct, a connection each", f"http://{record.address}:{METRICS}/metrics", None),
                ("a forward each", f"http://{POD}:{METRICS}/metrics", forwards),
            ):
                measured.setdefault(name, []).extend(_timed(partial(_once, url, transport)) for _ in range(20))
    for name, seconds in measured.items():
        p50, p95 = statistics.median(seconds), statistics.quantiles(seconds, n=20)[18]
        print(f"{name}: p50 {p50 * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms ({len(seconds)} requests)")
    for name, each in rates.items():
        print(f"{name}: {statistics.median(each):.0f} requests/s (from {min(each):.0f} to {max(each):.0f})")


async def _no_command(*_: object) -> None:
    """Run no command in any container."""


def _register(api: client.ApiClient, pki: Pki, address: str) -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    endpoint = KubeletEndpoint(pki, lambda *_: None, lambda *_: address, lambda *_: {}, _no_command)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asyncio.run_coroutine_threadsafe(endpoint.start(port), loop).result(20)
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_node({"metadata": {"name": NODE}})
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    core.patch_node_status(NODE, {"status": status})
    spec = {"nodeName": NODE, "automountServiceAccountToken": False, "containers": [{"name": "triton", "image": "triton"}]}
    _until(lambda: _created(core, {"metadata": {"name": POD}, "spec": spec}))


def _created(core: client.CoreV1Api, pod: dict[str, object]) -> bool:
    try:
        core.create_namespaced_pod(NAMESPACE, pod)
    except client.ApiException as error:
        if error.status != 403:  # the namespace's account does not exist yet
            raise
        return False
    return True


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _forwarded(forwards: PortForwards) -> bool:
    with httpx.Client(transport=forwards.transport()) as http:
        return http.get(f"http://{POD}:{HTTP}/v2").status_code == 200


def _once(url: str, forwards: PortForwards | None) -> None:
    # Creating a TLS context takes longer than either way.
    with httpx.Client(transport=forwards.transport() if forwards else None, trust_env=False, verify=_TLS) as http:
        http.get(url)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _rate(make: Callable[[], httpx.Client], clients: int) -> float:
    end = time.monotonic() + SECONDS

    def send(_: int) -> int:
        count = 0
        with make() as http:
            while time.monotonic() < end:
                http.get("/v2")
                count += 1
        return count

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(send, range(clients))) / SECONDS


def _until(condition: Callable[[], Any]) -> Any:
    return processes.wait_until(condition, "the parts of the measurement", 120)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
