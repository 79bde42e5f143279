"""The servers of one twin, running, and what talks to them."""

import shlex
import sys
from collections.abc import Sequence
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
from twin.services import agent

NEEDED = (moto_server.NAME, "etcd", "kube-apiserver")
"""The processes without which nothing can be asked of a twin."""
PROGRAMS = ("etcd", "kubernetes", "kwok", "pulumi", "helm")
"""The families of built programs (twin/host/tools.py) that a twin consists of."""


class NotRunning(Failure):
    """The command needs a twin that is up, and there is none at this home."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Servers:
    """A twin whose servers answer.

    `aws_is_new` says that the AWS account is an empty one: the first start, or the old account was lost with its process.
    `started` names the processes that did not run before.
    """

    home: TwinHome
    programs: dict[str, Path]
    aws_url: str
    kubeconfig: Path
    aws_is_new: bool = False
    started: tuple[str, ...] = ()

    @classmethod
    def start(cls, home: TwinHome, console: Console, *, with_agent: bool = True, families: Sequence[str] = ()) -> "Servers":
        """Build the tools that are missing and start the servers that do not run; what runs is left alone.

        `with_agent` starts nodes and pods too, which a preview does not need. `families` of programs are built beside
        PROGRAMS. Raises ToolError, ProcessFailed or DeadlinePassed.
        """
        programs = tools.ensure([*PROGRAMS, *families], console)
        before = _alive(home)

        def say(line: str) -> None:
            console.print(line, markup=False, highlight=False)

        is_new = moto_server.ensure(home, say)
        control_plane.ensure(home, programs, say, not_simulated=POD_PROGRAMS.images)
        _write_shell_programs(home, programs)
        if with_agent and agent.ensure(home):
            say("started the agent (nodes, and Triton's pods)")
        return cls._found(home, programs, is_new, tuple(sorted(_alive(home) - before)))

    @classmethod
    def running(cls, home: TwinHome) -> "Servers":
        """Return the servers of a twin that is up. Raises NotRunning."""
        known = home.load_endpoints()
        if not (known.aws_url and known.kubeconfig):
            raise NotRunning(f"no twin is up at {home.path}; start it with `make up`, or set TWIN_HOME to where one is")
        dead = [name for name in NEEDED if processes.find(home, name) is None]
        if dead:
            raise NotRunning(f"{', '.join(dead)} of the twin at {home.path} no longer run; `make up` starts them again")
        return cls._found(home, tools.ensure(PROGRAMS, Console(stderr=True)))

    @classmethod
    def _found(
        cls, home: TwinHome, programs: dict[str, Path], aws_is_new: bool = False, started: tuple[str, ...] = ()
    ) -> "Servers":
        known = home.load_endpoints()
        assert known.aws_url and known.kubeconfig
        return cls(home, programs, known.aws_url, Path(known.kubeconfig), aws_is_new, started)

    def engine(self) -> Engine:
        """Return the Pulumi engine on this checkout's program."""
        return Engine(self.home, layout.lay_out(self.home, self.programs["pulumi"]), self._environment())

    def cluster(self) -> ClusterView:
        """Return the cluster, to look at."""
        server = self.home.load_endpoints().api_server_url
        assert server
        return ClusterView(KubeClient(server, Pki(self.home.pki).client_context(certificates.ADMIN)))

    def _environment(self) -> dict[str, str]:
        return engine.environment(self.home, aws_endpoint=self.aws_url, kubeconfig=self.kubeconfig)

    def variables(self) -> dict[str, str]:
        """Return the environment variables that make a shell talk to this twin."""
        return engine.variables(self.home, aws_endpoint=self.aws_url, kubeconfig=self.kubeconfig)

    def endpoints(self) -> dict[str, str]:
        """Return where a person finds things, by name. Raises KubeError."""
        known, prometheus = self.home.load_endpoints(), self.prometheus_urls()
        return {
            "AWS (moto)": self.aws_url,
            "AWS console": f"{self.aws_url}/moto-api/",
            "Kubernetes": known.api_server_url or "",
            "kubeconfig": str(self.kubeconfig),
            **({"Prometheus": " ".join(prometheus)} if prometheus else {}),
            "logs": str(self.home.logs),
        }

    def prometheus_urls(self) -> list[str]:
        """Return where each Prometheus of the stack answers on this machine. Raises KubeError."""
        addresses = self.cluster().ready_addresses(f"{prometheus_objects.LABEL}={prometheus_objects.CHART}")
        return [f"http://{pod_addresses.loopback(address)}:{PROMETHEUS_PORT}" for address in addresses]


def _alive(home: TwinHome) -> set[str]:
    return {record.name for record in processes.records(home) if record.alive()}


def _write_shell_programs(home: TwinHome, programs: dict[str, Path]) -> None:
    """`bin/`: kubectl and helm as they are; `pulumi` through `twin pulumi`, which hands it the twin's stack file."""
    folder = home.path / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("kubectl", "helm"):
        link = folder / name
        if link.resolve() != programs[name].resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(programs[name])
    python, repository, own = (shlex.quote(str(path)) for path in (sys.executable, REPOSITORY, home.path))
    script = f'TWIN_HOME={own} PYTHONPATH={repository} exec {python} -m twin pulumi -- "$@"\n'
    write_whole(folder / "pulumi", tools.SHELL_PULUMI + script.encode(), mode=0o755)
