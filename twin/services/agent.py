"""The twin's agent: one background process for nodes, pods and the charts' programs.

It simulates machines (cluster/nodes.py), runs pods (pods/runner.py) and the programs that replace charts
(releases/runner.py). It may be killed at any time: its processes continue, and the next agent takes them over.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from twin.aws.base.clients import Clients
from twin.charts.registry import CHARTS, POD_PROGRAMS
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.dns import ClusterDns
from twin.cluster.instances import InstanceSimulator
from twin.cluster.kube_api import KubeApi
from twin.cluster.kubelet import KubeletEndpoint
from twin.cluster.launched import InstanceReader
from twin.cluster.load_balancer import LoadBalancers
from twin.cluster.node_groups import AwsReader
from twin.cluster.nodes import NodeSimulator
from twin.cluster.pod_addresses import Addresses, loopback, own
from twin.cluster.proxy import ClusterProxy
from twin.cluster.services import ClusterServices
from twin.host import ports, processes, tools
from twin.host.home import REPOSITORY, TwinHome, read_json, write_json
from twin.host.processes import Service
from twin.identity.exchange import IdentityExchange
from twin.identity.pod_identity import PodIdentityAgent
from twin.identity.web_identity import WebIdentityService
from twin.pods.events import Events
from twin.pods.pod_worker import PodContext
from twin.pods.runner import PodRunner
from twin.releases.chart import ChartContext
from twin.releases.runner import ChartRunner

NAME = "agent"
_STOP_ORDER = 100
"""The agent stops first; else it would restart processes that are being stopped."""
_START_SECONDS = 60.0

log = logging.getLogger("twin.agent")


class Ports(NamedTuple):
    """The agent's ports on 127.0.0.1."""

    kubelet: int
    dns: int
    proxy: int
    sts: int
    pod_identity: int


def ensure(home: TwinHome, region: str = "us-west-2") -> bool:
    """Start the agent unless it runs, and wait until it caught up with the API; return whether it had to be started.

    `region` is the AWS region of the cluster. Needs the endpoints of a running moto and control plane. An agent with other
    code, other endpoints or another region is replaced. Raises ProcessFailed or DeadlinePassed.
    """
    endpoints = home.load_endpoints()
    running = processes.find(home, NAME)
    kept = {name: ports.keep(home, name, held=running is not None) for name in Ports._fields}
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home.path),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TWIN_HOME": str(home.path),
        **{_variable(name): str(port) for name, port in kept.items()},
        # Its HOME is the twin's, but built programs and Go modules are shared by all twins of a user.
        "XDG_CACHE_HOME": str(tools.cache_directory().parents[1]),
        "AWS_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    argv = (sys.executable, "-m", "twin.services.agent")
    depends_on = f"{endpoints} {_digest_of_code()}"
    service = Service(NAME, argv, env, REPOSITORY, stop_order=_STOP_ORDER, depends_on=depends_on)

    def caught_up() -> bool:
        record, said = processes.find(home, NAME), read_json(_ready_file(home))
        return record is not None and said is not None and said["pid"] == record.pid

    return processes.ensure(home, service, ready=caught_up, what="the agent to catch up", seconds=_START_SECONDS)


async def work(home: TwinHome, region: str, listen: Ports) -> None:
    """Run the agent until cancelled."""
    endpoints = home.load_endpoints()
    if not (endpoints.api_server_url and endpoints.aws_url):
        raise SystemExit(f"{home.path}: the control plane and AWS must have been started before the agent")
    pki = Pki(home.pki)
    api = KubeApi(endpoints.api_server_url, pki.client_context(certificates.AGENT))
    identity = IdentityExchange(endpoints.aws_url, region)
    credentials_url = f"{_url(listen.pod_identity)}/v1/credentials"
    surroundings = (home, api, identity, Addresses(home), Events(api), POD_PROGRAMS)
    runner = PodRunner(PodContext(*surroundings, listen.dns, listen.proxy, credentials_url))
    aws = AwsReader(endpoints.aws_url, region)
    simulator = NodeSimulator(api, aws, listen.kubelet, runs_as_process=POD_PROGRAMS.claim)
    instances = InstanceSimulator(api, InstanceReader(aws), listen.kubelet)
    context = ChartContext(
        home,
        api,
        endpoints.api_server_url,
        endpoints.aws_url,
        _url(listen.sts),
        _url(listen.proxy),
        region,
        credentials_url,
    )
    charts = ChartRunner(api, {chart.name: chart.programs(context) for chart in CHARTS.values() if chart.programs})

    def log_file(namespace: str, pod: str, container: str) -> Path | None:
        uid = runner.uid(namespace, pod)
        return home.pods / uid / f"{Path(container).name}.log" if uid else None

    def host(namespace: str, pod: str) -> str | None:
        uid = runner.uid(namespace, pod)
        given = read_json(home.pods / uid / "address.json") if uid else None
        return loopback(given["podIP"]) if given else None

    def spec(namespace: str, pod: str) -> Mapping[str, Any]:
        return runner.spec(namespace, pod) or {}

    await KubeletEndpoint(pki, log_file, host, spec, runner.execute).start(listen.kubelet)
    services = ClusterServices(api)
    await ClusterDns(services).start(listen.dns)
    await ClusterProxy(services).start(listen.proxy)
    await WebIdentityService(api, identity, endpoints.aws_url).start(listen.sts)
    await PodIdentityAgent(api, Clients(region, endpoints.aws_url)).start(listen.pod_identity)
    balancers = LoadBalancers(api, own(home))
    loops = [
        asyncio.create_task(loop) for loop in (simulator.run(), instances.run(), runner.run(), charts.run(), balancers.run())
    ]
    try:
        await asyncio.gather(simulator.synced.wait(), runner.synced.wait(), charts.synced.wait())
        write_json(_ready_file(home), {"pid": os.getpid()})
        log.info("caught up")
        await asyncio.gather(*loops)
    finally:
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await api.close()


def main() -> None:
    """Run `python -m twin.services.agent` until SIGTERM, which leaves the pods' processes running."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)

    async def until_terminated() -> None:
        listen = Ports(**{name: int(os.environ[_variable(name)]) for name in Ports._fields})
        task = asyncio.create_task(work(TwinHome.from_environment(), os.environ["AWS_REGION"], listen))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_terminated())


def _variable(port: str) -> str:
    return f"TWIN_{port.upper()}_PORT"


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _ready_file(home: TwinHome) -> Path:
    return home.run / "agent-ready"


def _digest_of_code() -> str:
    content = b"\0".join(path.read_bytes() for path in sorted((REPOSITORY / "twin").rglob("*.py")))
    return hashlib.sha256(content).hexdigest()[:16]


if __name__ == "__main__":
    main()
