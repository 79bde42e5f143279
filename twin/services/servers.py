"""The servers of one twin, and their clients."""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from spec.failure import NOT_TRIED, Failure
from spec.files import write_whole
from spec.names import PROMETHEUS_PORT
from twin.aws import moto_server
from twin.charts.kube_prometheus_stack import objects as prometheus_objects
from twin.charts.registry import POD_PROGRAMS
from twin.cluster import certificates, control_plane, pod_addresses
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeClient
from twin.cluster.view import ClusterView
from twin.engine import engine, layout
from twin.engine.engine import Engine
from twin.host import processes, tools
from twin.host.home import REPOSITORY, TwinHome

NEEDED = (moto_server.NAME, "etcd", "kube-apiserver")
"""The processes that every running twin has."""
PROGRAMS = ("pulumi", "control-plane")
"""The families of built programs (twin/host/tools.py) of a twin. The first one is enough for a first preview."""


class NotRunning(Failure):
    """The command needs a running twin, and there is none at this home."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Servers:
    """A twin whose servers answer.

    `aws_is_new`: the AWS account is empty, because this is the first start, or the old account was lost with its process.
    `started` names the processes that did not run before. `program` is the checkout whose program its engine runs.
    """

    home: TwinHome
    programs: Mapping[str, Path]
    aws_url: str
    kubeconfig: Path
    aws_is_new: bool = False
    started: tuple[str, ...] = ()
    program: Path = REPOSITORY

    @classmethod
    def start(cls, home: TwinHome, programs: Mapping[str, Path], console: Console, *, with_agent: bool = True) -> "Servers":
        """Start the servers that do not run, from the given programs; running ones stay unchanged.

        `with_agent` also starts nodes and pods, which a preview does not need. Raises ProcessFailed or DeadlinePassed.
        """
        before = _alive(home)

        def say(line: str) -> None:
            console.print(line, markup=False, highlight=False)

        is_new = moto_server.ensure(home, say)
        control_plane.ensure(home, programs, say, not_simulated=POD_PROGRAMS.containers)
        _write_shell_programs(home, programs["kubectl"])
        if with_agent:
            # Imported here, because the code that runs pods takes long to import, and a preview does not need it.
            from twin.services import agent

            if agent.ensure(home):
                say("started the agent (nodes, and Triton's pods)")
        return cls._found(home, programs, is_new, tuple(sorted(_alive(home) - before)))

    @classmethod
    def without_cluster(
        cls, home: TwinHome, programs: Mapping[str, Path], say: Callable[[str], None], account: str | None = None
    ) -> "Servers":
        """Start only AWS, as that account. The cluster has an address without a server, which is enough for a preview.

        Raises ProcessFailed or DeadlinePassed.
        """
        is_new = moto_server.ensure(home, say, account)
        control_plane.announce(home)
        return cls._found(home, programs, is_new)

    @classmethod
    def running(cls, home: TwinHome) -> "Servers":
        """Return the servers of a running twin. Raises NotRunning."""
        known = home.load_endpoints()
        if not (known.aws_url and known.kubeconfig):
            raise NotRunning(f"no twin is up at {home.path}; start it with `make up`, or set TWIN_HOME to where one is")
        dead = [name for name in NEEDED if processes.find(home, name) is None]
        if dead:
            raise NotRunning(f"{', '.join(dead)} of the twin at {home.path} no longer run; `make up` starts them again")
        return cls._found(home, tools.ensure(PROGRAMS, Console(stderr=True)))

    @classmethod
    def _found(
        cls, home: TwinHome, programs: Mapping[str, Path], aws_is_new: bool = False, started: tuple[str, ...] = ()
    ) -> "Servers":
        known = home.load_endpoints()
        assert known.aws_url and known.kubeconfig
        return cls(home, programs, known.aws_url, Path(known.kubeconfig), aws_is_new, started)

    def engine(self) -> Engine:
        """Return the Pulumi engine on `program`."""
        pulumi = layout.lay_out(self.home, self.programs["pulumi"])
        return Engine(self.home, pulumi, self._environment(), self.program)

    def cluster(self) -> ClusterView:
        """Return a view of the cluster."""
        server = self.home.load_endpoints().api_server_url
        assert server
        return ClusterView(KubeClient(server, Pki(self.home.pki).client_context(certificates.ADMIN)))

    def _environment(self) -> dict[str, str]:
        return engine.environment(self.home, aws_endpoint=self.aws_url, kubeconfig=self.kubeconfig)

    def variables(self) -> dict[str, str]:
        """Return the environment variables with which a shell uses this twin."""
        return engine.variables(self.home, aws_endpoint=self.aws_url, kubeconfig=self.kubeconfig)

    def endpoints(self) -> dict[str, str]:
        """Return the URLs and paths of the twin's parts, by name for people. Raises KubeError."""
        known, prometheus = self.home.load_endpoints(), self.prometheus_urls()
        return {
            "AWS (moto)": self.aws_url,
            "AWS console": f"{self.aws_url}/moto-api/",
            "Kubernetes": known.api_server_url or "",
            "kubeconfig": str(self.kubeconfig),
            **({"Prometheus": " ".join(prometheus)} if prometheus else {}),
            **self.cluster().load_balancers(),
            "logs": str(self.home.logs),
        }

    def prometheus_urls(self) -> list[str]:
        """Return the URL of each Prometheus of the stack on this machine. Raises KubeError."""
        addresses = self.cluster().ready_addresses(f"{prometheus_objects.LABEL}={prometheus_objects.CHART}")
        return [f"http://{pod_addresses.loopback(address)}:{PROMETHEUS_PORT}" for address in addresses]


def _alive(home: TwinHome) -> set[str]:
    return {record.name for record in processes.records(home) if record.alive()}


def _write_shell_programs(home: TwinHome, kubectl: Path) -> None:
    """Write `bin/`: kubectl; `aws`, version 1 of `.venv`; helm, built on first use; `pulumi` with the twin's stack file."""
    folder = home.path / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "kubectl"
    if link.resolve() != kubectl.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(kubectl)
    helm = tools.FAMILIES["helm"].programs().paths()["helm"]
    python, repository, own, built = (shlex.quote(str(path)) for path in (sys.executable, REPOSITORY, home.path, helm))
    write_whole(folder / "aws", f'#!/bin/sh\nexec {python} -P -m awscli "$@"\n'.encode(), mode=0o755)
    script = f'[ -x {built} ] || PYTHONPATH={repository} {python} -m twin.host.tools helm || exit\nexec {built} "$@"\n'
    write_whole(folder / "helm", b"#!/bin/sh\n" + script.encode(), mode=0o755)
    script = f'TWIN_HOME={own} PYTHONPATH={repository} exec {python} -m twin pulumi -- "$@"\n'
    write_whole(folder / "pulumi", tools.SHELL_PULUMI + script.encode(), mode=0o755)
