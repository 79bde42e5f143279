"""The chart gateway-helm on the twin: Envoy Gateway's real controller as a process.

It reads the Gateways, routes and policies, creates a Deployment and a Service of Envoys for each Gateway, and configures the
Envoys. The pods of the Deployment run as processes (pods.py). The twin provides the Service's load balancer
(twin/cluster/load_balancer.py). The controller listens at the twin's own address (twin/cluster/pod_addresses.py).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from spec.charts import ENVOY_GATEWAY
from spec.files import write_whole
from twin.charts.envoy_gateway.pods import FAMILY, locate
from twin.cluster import certificates, pod_addresses
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import object_path
from twin.host import tools
from twin.host.processes import Service
from twin.releases.chart import Announce, ChartContext, ChartFailed, Release
from twin.releases.helm import merge
from twin.releases.programs import STOP_ORDER, Program, answers, keep_running, stop

NAME = "envoy-gateway"
"""The name of the program, and of the Secret with its certificate."""
_IMAGE = f"docker.io/envoyproxy/gateway:{ENVOY_GATEWAY.version}"
_HEALTH_PORT, _ADMIN_PORT = 8081, 19000
_CERTIFICATE_SECONDS = 60


class EnvoyGateway:
    """The program of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home
        self._directory = context.home.path / "charts" / NAME
        self._kubeconfig = self._directory / "kubeconfig"
        self._config = self._directory / "envoy-gateway.yaml"

    async def run(self, release: Release, ready: Announce) -> None:
        """Create the certificates of controller and Envoys like the chart's job, and keep the controller running."""
        program = tools.built((FAMILY,))[FAMILY]
        locate()
        address = pod_addresses.own(self._home)
        self._directory.mkdir(parents=True, exist_ok=True)
        pki = Pki(self._home.pki)
        certificates.write_kubeconfig(self._kubeconfig, pki, certificates.ENVOY_GATEWAY, self._context.api_server_url)
        write_whole(self._config, yaml.safe_dump(configuration(release.values, address)).encode())
        environment = {
            "PATH": os.defpath,
            "HOME": str(self._directory),
            "TMPDIR": str(self._home.temporary),
            "KUBECONFIG": str(self._kubeconfig),
            "ENVOY_GATEWAY_NAMESPACE": release.namespace,
            "TWIN_ADDRESS": address,
            "TWIN_CERTIFICATES": str(self._directory),
        }
        await _make_certificates(program, environment)
        files = [self._kubeconfig, self._config, *await self._write_certificate(release.namespace)]
        service = Service(
            NAME,
            (str(program), "server", f"--config-path={self._config}"),
            environment,
            self._directory,
            stop_order=STOP_ORDER,
            depends_on=hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest(),
        )
        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
            url = f"http://{address}:{_HEALTH_PORT}/readyz"
            await keep_running(self._home, [Program(service, lambda: answers(client, url))], ready)

    async def remove(self) -> None:
        """Stop the controller. The Envoys are deleted with their Gateway, which the engine deletes before the chart."""
        await stop(self._home, NAME)

    async def _write_certificate(self, namespace: str) -> list[Path]:
        secret = await self._context.api.get(object_path("v1", "secrets", namespace, NAME))
        written = []
        for name, content in sorted(secret["data"].items()):
            written.append(self._directory / name)
            write_whole(written[-1], base64.b64decode(content))
        return written


def configuration(values: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the controller's configuration, as the chart creates it from its values, with `address` to listen at."""
    given = (values.get("config") or {}).get("envoyGateway") or {}
    injects = (values.get("topologyInjector") or {}).get("enabled", True)
    if injects:
        raise ChartFailed("the twin has no webhook on Envoys' pods: set `topologyInjector.enabled: false` for gateway-helm")
    base = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "shutdownManager": {"image": _IMAGE},
                "proxyTopologyInjector": {"disabled": True},
            },
        },
        "logging": {"level": {"default": "info"}},
    }
    here = {
        # There is one replica here, but several in the chart.
        "provider": {"kubernetes": {"leaderElection": {"disable": True}}},
        "admin": {"address": {"host": address, "port": _ADMIN_PORT}},
        # Their port would be the same on every interface.
        "telemetry": {"metrics": {"prometheus": {"disable": True}}},
    }
    merged: dict[str, Any] = merge(base, given, here)
    return merged


async def _make_certificates(program: Path, environment: Mapping[str, str]) -> None:
    """Create the missing Secrets of controller and Envoys. Raises ChartFailed."""
    process = await asyncio.create_subprocess_exec(
        program,
        "certgen",
        "--disable-topology-injector",
        env=dict(environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_CERTIFICATE_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise ChartFailed(f"`envoy-gateway certgen` did not end within {_CERTIFICATE_SECONDS} s") from None
    if process.returncode != 0:
        raise ChartFailed(f"`envoy-gateway certgen` ended with {process.returncode}: {said.decode().strip()[-1000:]}")
