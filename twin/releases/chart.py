"""Define what the twin has in the place of a Helm chart of others: one record for each chart (twin/charts/)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from spec.charts import ChartPin
from twin.host.home import TwinHome
from twin.pods.program import PodProgram

if TYPE_CHECKING:
    from twin.cluster.kube_api import KubeApi

Announce = Callable[[], Awaitable[None]]


class ChartFailed(Exception):
    """A stand-in of a chart cannot run; the text says why, and where to look."""


@dataclass(frozen=True)
class GoModule:
    """A published Go module, in which a program's own definitions, rights, or its whole chart lie as files."""

    path: str
    version: str


@dataclass(frozen=True)
class Accounts:
    """The service accounts of a chart whose programs run here, with their rights.

    `files` of the chart's module are applied in this order. `namespace` is where they put what is of the program alone; a
    release has it in its own. `annotations` are those of the service accounts, from the release's values. `templates` is the
    folder of the chart itself, where the module ships it: then what Helm makes of it is applied, and the rest is not needed.
    """

    files: tuple[str, ...] = ()
    namespace: str = ""
    annotations: Callable[[Mapping[str, Any]], dict[str, str]] = lambda _: {}
    templates: str = ""


@dataclass(frozen=True)
class Release:
    """A release of a chart as it was last installed.

    `values` are those that the program gave, without the chart's own defaults. `installation` is another one each time.
    """

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    installation: str


@dataclass(frozen=True)
class ChartContext:
    """The surroundings that the programs of a chart find on this machine.

    URLs are on loopback. Through the proxy they reach the cluster's Services by name (twin/cluster/proxy.py); the STS gives
    roles for tokens of the cluster (twin/identity/web_identity.py), and so does the agent of Pod Identity (pod_identity.py).
    """

    home: TwinHome
    api: KubeApi
    api_server_url: str
    aws_url: str
    sts_url: str
    proxy_url: str
    region: str
    pod_identity_url: str


class ChartPrograms(Protocol):
    """The real programs that stand for one chart."""

    async def run(self, release: Release, ready: Announce) -> None:
        """Make everything as `release` says, call `ready` once all of it answers, and keep it so until cancelled.

        Cancelling leaves the programs running: the next agent, or the next installation's `run`, takes them over. Raises
        ChartFailed or ToolError for what a person must mend, and KubeError for what may pass; it is called again after any
        of them.
        """

    async def remove(self) -> None:
        """End the programs and remove what they have in the cluster; with nothing there, nothing happens."""


@dataclass(frozen=True)
class Chart:
    """The stand-in of one chart.

    `stand_in` is the rest of a sentence that says that the chart is not installed. `definitions` is a pattern of files in
    `module` (JSON or YAML) that hold its custom resource definitions; empty: it brings none that this project uses.
    `programs` makes what the agent runs while the chart is installed, and `pods` are the programs of pods that come with it;
    `families` of built programs (twin/host/tools.py) belong to both. `installed_by` says whether a stack, given by what
    stands below `config` of its file, has the chart; it is only asked for charts with families.
    """

    pin: ChartPin
    stand_in: str = "nothing of it runs here"
    module: GoModule | None = None
    definitions: str = ""
    accounts: Accounts | None = None
    families: tuple[str, ...] = ()
    installed_by: Callable[[Mapping[str, Any]], bool] = lambda _: False
    programs: Callable[[ChartContext], ChartPrograms] | None = None
    pods: tuple[PodProgram, ...] = ()

    @property
    def name(self) -> str:
        """Return the chart's own name."""
        return self.pin.name
