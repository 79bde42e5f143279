"""Report the current state of a twin, for people and for programs."""

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from spec.names import TRITON_NAMESPACE
from spec.settings import SettingsError
from twin.cluster import pod_addresses
from twin.cluster.view import ClusterView
from twin.commands import inference
from twin.commands.up import UpFailed, asked_fleet, last_inference_file
from twin.engine import stack_files
from twin.engine.stack_files import STACK
from twin.host import processes
from twin.host.home import TwinHome, read_json
from twin.services.servers import Servers


@dataclasses.dataclass(frozen=True)
class Status:
    """The document of `twin status --json`.

    `resources` counts the stack's resources by type, as the engine counts them; `pods` are the pods of the whole cluster.
    `answering` are the addresses of the ready pods of the fleet that serves the sample ensemble. `autoscaling` is true if
    the stack was created by `make up AUTOSCALING=1`. `processes` are the twin's background processes (`name`, `pid`,
    `running`); `endpoints` are URLs and files.
    """

    stack: str
    release: dict[str, Any] | None
    resources: dict[str, int]
    processes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    endpoints: dict[str, str]
    last_inference: dict[str, Any] | None
    answering: list[str]
    autoscaling: bool = False


def read(home: TwinHome, servers: Servers) -> Status:
    """Read the status of a running twin. Raises EngineError, or KubeError."""
    types = collections.Counter(resource["type"] for resource in servers.engine().resources(STACK))
    cluster = servers.cluster()
    return Status(
        stack=STACK,
        release=stack_files.pinned_release(home, STACK),
        resources=dict(sorted(types.items())),
        processes=[{"name": r.name, "pid": r.pid, "running": r.alive()} for r in processes.records(home)],
        pods=[dataclasses.asdict(pod) for pod in cluster.pods()],
        endpoints=servers.endpoints(),
        last_inference=read_json(last_inference_file(home)),
        answering=_answering(home, cluster),
        autoscaling=stack_files.autoscaling(home),
    )


def _answering(home: TwinHome, cluster: ClusterView) -> list[str]:
    try:
        service = asked_fleet(home).release
    except (SettingsError, UpFailed):  # the file is being edited; the next `up` reports its problem
        return []
    return cluster.service_addresses(TRITON_NAMESPACE, service)


def lines(found: Status, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of the status for a person, problems last; with `verbose`, also the resources by type."""
    release = found.release or {}
    yield f"stack {found.stack}, release {release.get('id', '(none yet)')}, {sum(found.resources.values())} resources"
    if verbose:
        yield from table([[str(count), kind] for kind, count in found.resources.items()])
    yield ""
    yield from table([[name, value] for name, value in found.endpoints.items()])
    yield ""
    header = ["namespace", "pod", "node", "address", "on this machine", "status", "ready", "restarts"]
    yield from table([header, *(_pod_row(pod) for pod in found.pods)])
    yield ""
    last = found.last_inference
    if last:
        yield f"last inference: {last['model']} version {last['version']}, {last['latency_ms']} ms, at {last['at']}"
    if found.answering:
        yield f"ask it: {inference.curl(pod_addresses.loopback(found.answering[0]))}"
    dead = [process["name"] for process in found.processes if not process["running"]]
    if dead:
        yield f"no longer running: {', '.join(dead)}; `make up` starts what is missing again"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as aligned columns of any width: names must stay complete, to be copied."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _pod_row(pod: dict[str, Any]) -> list[str]:
    ready = "yes" if pod["ready"] else "no"
    names = [pod[key] or "-" for key in ("namespace", "name", "node", "address", "listens", "status")]
    return [*names, ready, str(pod["restarts"])]
