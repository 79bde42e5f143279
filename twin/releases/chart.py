"""Define the twin's substitute for a third-party Helm chart: one record for each chart (twin/charts/)."""

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
    """A chart's substitute cannot run; the text says why, and where to look."""


@dataclass(frozen=True)
class GoModule:
    """A published Go module with files of a program's definitions, permissions, or whole chart."""

    path: str
    version: str


@dataclass(frozen=True)
class Accounts:
    """The service accounts of a chart whose programs run here, with their permissions.

    `files` of the chart's module are applied in this order. `namespace` is the namespace in these files, which a release
    replaces with its own. `annotations` computes the service accounts' annotations from the release's values. `templates`
    is the folder of the chart itself, if the module contains it. Then the objects that Helm renders are applied, and the
    other fields are not needed.
    """

    files: tuple[str, ...] = ()
    namespace: str = ""
    annotations: Callable[[Mapping[str, Any]], dict[str, str]] = lambda _: {}
    templates: str = ""


@dataclass(frozen=True)
class Release:
    """A release of a chart as it was last installed.

    `values` are the program's, without the chart's defaults. `installation` differs at each installation.
    """

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    installation: str


@dataclass(frozen=True)
class ChartContext:
    """The environment of a chart's programs on this machine.

    URLs are on loopback. The proxy resolves the cluster's Services by name (twin/cluster/proxy.py). The STS gives roles for
    tokens of the cluster (twin/identity/web_identity.py), and so does the agent of Pod Identity (pod_identity.py).
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
    """The real programs that replace one chart."""

    async def run(self, release: Release, ready: Announce) -> None:
        """Create everything in `release`, call `ready` once all of it answers, and maintain it until cancelled.

        Cancelling leaves the programs running, and the next agent, or the next installation's `run`, takes them over.
        Raises ChartFailed or ToolError for problems that a person must fix, and KubeError for problems that may pass. It is
        called again after any of them.
        """

    async def remove(self) -> None:
        """Stop the programs and delete their objects in the cluster. Missing ones are ignored."""


@dataclass(frozen=True)
class Chart:
    """The substitute of one chart.

    `stand_in` completes the message that the chart is not installed. `definitions` is a pattern of files in `module` (JSON
    or YAML) with its custom resource definitions; empty if this project uses none of them. `programs` creates the programs
    that the agent runs while the chart is installed, and `pods` are the programs of its pods. `families` of built programs
    (twin/host/tools.py) are for both. `installed_by` returns whether a stack, given by the section `config` of its file, has
    the chart; it is only called for charts with families.
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
