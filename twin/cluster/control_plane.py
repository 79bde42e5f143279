"""A real Kubernetes control plane on loopback: etcd, kube-apiserver, controller-manager, scheduler, and kwok for the nodes.

docs/facts/local-control-plane.md#flags explains the flags. Everything listens on 127.0.0.1, on ports that the twin keeps.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from twin.aws import moto_server
from twin.cluster import certificates, eks_webhooks, kwok_stages
from twin.cluster.certificates import Client, Pki
from twin.host import ports, processes
from twin.host.home import TwinHome
from twin.host.processes import Service

SERVICE_CIDR = "10.96.0.0/16"
SIMULATED_POD_CIDR = "10.244.0.0/17"
"""The range of kwok's pod addresses. The upper half of 10.244.0.0/16 belongs to pods that run as processes."""
ISSUER = "https://kubernetes.default.svc"
"""The `iss` of the API server's tokens, in place of an EKS issuer.

EKS gives each cluster an issuer URL that is known only once the cluster exists (twin/identity/irsa.py).
"""
STOP_ORDER_ETCD, STOP_ORDER_API_SERVER, STOP_ORDER_CONTROLLERS = 10, 20, 30
_START_SECONDS = 90.0
"""The longest measured start took 4 s; a machine that builds Go programs at the same time needs more."""

Progress = Callable[[str], None]


def ensure(home: TwinHome, tools: Mapping[str, Path], progress: Progress, *, not_simulated: str = "") -> None:
    """Start the whole control plane and wait until it is ready; keep running parts and stored data.

    Ready means that pods can be created: the API server answers /readyz and the namespace `default` has its service
    account. Write the kubeconfigs and the endpoints. kwok ignores pods with a container that matches `not_simulated`, a
    regular expression of name, space and image. Raises ProcessFailed or DeadlinePassed.
    """
    pki = certificates.ensure(home)
    etcd_url = _ensure_etcd(home, tools["etcd"], progress)
    server = _ensure_api_server(home, tools["kube-apiserver"], pki, etcd_url, progress)
    _write_access(home, pki, server)
    _ensure_controller_manager(home, tools["kube-controller-manager"], pki, progress)
    _ensure_scheduler(home, tools["kube-scheduler"], pki, progress)
    _ensure_kwok(home, tools["kwok"], pki, not_simulated, progress)
    with httpx.Client(base_url=server, verify=pki.client_context(certificates.ADMIN), timeout=5.0, trust_env=False) as http:
        processes.wait_until(
            lambda: _answers(http, "/api/v1/namespaces/default/serviceaccounts/default"),
            "the controller-manager to make the service account `default`, without which no pod can be created",
            _START_SECONDS,
        )


def announce(home: TwinHome) -> None:
    """Write the kubeconfigs and the endpoints of a control plane that may not run yet."""
    _write_access(home, certificates.ensure(home), f"https://127.0.0.1:{_port(home, 'kube-apiserver')}")


def _write_access(home: TwinHome, pki: Pki, server: str) -> None:
    certificates.write_kubeconfig(home.kubeconfig, pki, certificates.ADMIN, server)
    for client in certificates.KUBECONFIGS:
        certificates.write_kubeconfig(pki.kubeconfig(client), pki, client, server)
    home.save_endpoints(api_server_url=server, kubeconfig=str(home.kubeconfig))


def _ensure_etcd(home: TwinHome, binary: Path, progress: Progress) -> str:
    port, peer_port = _port(home, "etcd"), _port(home, "etcd-peer", of="etcd")
    url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    argv = [
        str(binary),
        f"--data-dir={home.etcd}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    home.etcd.mkdir(parents=True, exist_ok=True, mode=0o700)
    service = _service(home, "etcd", argv, STOP_ORDER_ETCD)
    _ensure(home, service, f"{url}/health", "etcd to answer", progress)
    return url


def _ensure_api_server(home: TwinHome, binary: Path, pki: Pki, etcd_url: str, progress: Progress) -> str:
    port = _port(home, "kube-apiserver")
    front_proxy = pki.client(certificates.FRONT_PROXY)
    kubelet = pki.client(certificates.KUBELET_CLIENT)
    authentication, authorization = eks_webhooks.write(home, _port(home, moto_server.NAME))
    argv = [
        str(binary),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--authorization-config={authorization}",
        f"--authentication-token-webhook-config-file={authentication}",
        "--authentication-token-webhook-version=v1",
        f"--authentication-token-webhook-cache-ttl={eks_webhooks.CACHE_SECONDS}s",
        f"--client-ca-file={pki.ca}",
        f"--tls-cert-file={pki.serving.certificate}",
        f"--tls-private-key-file={pki.serving.key}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki.service_account_public_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--requestheader-client-ca-file={pki.front_proxy_ca}",
        f"--requestheader-allowed-names={certificates.FRONT_PROXY.user}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={front_proxy.certificate}",
        f"--proxy-client-key-file={front_proxy.key}",
        # Never look up a node's name in DNS: its address is the agent's, on loopback.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki.ca}",
        f"--kubelet-client-certificate={kubelet.certificate}",
        f"--kubelet-client-key={kubelet.key}",
    ]
    server = f"https://127.0.0.1:{port}"
    files = [pki.ca, pki.serving.certificate, authentication, authorization]
    service = _service(home, "kube-apiserver", argv, STOP_ORDER_API_SERVER, files=files)
    context = pki.client_context(certificates.ADMIN)
    with httpx.Client(verify=context, timeout=5.0, trust_env=False) as client:
        _ensure(home, service, f"{server}/readyz", "the API server to be ready", progress, client)
    return server


def _ensure_controller_manager(home: TwinHome, binary: Path, pki: Pki, progress: Progress) -> None:
    argv = [
        *_component(home, binary, "kube-controller-manager", pki, certificates.CONTROLLER_MANAGER),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki.service_account_key}",
        f"--root-ca-file={pki.ca}",
        # At the default rate, the service account `default` is created 4 s later:
        # docs/facts/local-control-plane.md#service-account.
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        f"--flex-volume-plugin-dir={home.cache / 'flex-volumes'}",
        # EKS uses 15 s. A shorter period gives the same decisions with less waiting.
        "--horizontal-pod-autoscaler-sync-period=5s",
    ]
    _ensure_component(home, "kube-controller-manager", argv, pki.kubeconfig(certificates.CONTROLLER_MANAGER), progress)


def _ensure_scheduler(home: TwinHome, binary: Path, pki: Pki, progress: Progress) -> None:
    argv = _component(home, binary, "kube-scheduler", pki, certificates.SCHEDULER)
    _ensure_component(home, "kube-scheduler", argv, pki.kubeconfig(certificates.SCHEDULER), progress)


def _ensure_kwok(home: TwinHome, binary: Path, pki: Pki, not_simulated: str, progress: Progress) -> None:
    port = _port(home, "kwok")
    kubeconfig, stages = pki.kubeconfig(certificates.NODE_SIMULATOR), home.cache / "kwok-stages.yaml"
    kwok_stages.write(stages, not_simulated)
    argv = [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-nodes-with-label-selector=type=kwok",
        f"--cidr={SIMULATED_POD_CIDR}",
        "--node-ip=127.0.0.1",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]
    service = _service(home, "kwok", argv, STOP_ORDER_CONTROLLERS, files=[kubeconfig, stages])
    _ensure(home, service, f"http://127.0.0.1:{port}/healthz", "kwok to answer", progress)


def _component(home: TwinHome, binary: Path, name: str, pki: Pki, client: Client) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={pki.kubeconfig(client)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={_port(home, name)}",
        f"--cert-dir={home.pki / name}",
        "--leader-elect=false",
    ]


def _ensure_component(home: TwinHome, name: str, argv: list[str], kubeconfig: Path, progress: Progress) -> None:
    service = _service(home, name, argv, STOP_ORDER_CONTROLLERS, files=[kubeconfig])
    url = f"https://127.0.0.1:{_port(home, name)}/healthz"
    # The component signs its own certificate at each start; this only checks its health, on loopback.
    with httpx.Client(verify=False, timeout=5.0, trust_env=False) as client:  # noqa: S501
        _ensure(home, service, url, f"{name} to be healthy", progress, client)


def _service(home: TwinHome, name: str, argv: list[str], stop_order: int, files: list[Path] | None = None) -> Service:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files or [])).hexdigest()
    env = {"PATH": os.defpath, "HOME": str(home.path), "TMPDIR": str(home.cache)}
    home.cache.mkdir(parents=True, exist_ok=True)
    return Service(name, tuple(argv), env, home.path, stop_order=stop_order, depends_on=digest)


def _ensure(
    home: TwinHome,
    service: Service,
    url: str,
    what: str,
    progress: Progress,
    client: httpx.Client | None = None,
) -> None:
    http = client or httpx.Client(timeout=5.0, trust_env=False)
    if processes.ensure(home, service, ready=lambda: _answers(http, url), what=what, seconds=_START_SECONDS):
        progress(f"started {service.name}")
    if client is None:
        http.close()


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.TransportError:
        return False


def _port(home: TwinHome, name: str, of: str | None = None) -> int:
    return ports.keep(home, name, held=processes.find(home, of or name) is not None)
