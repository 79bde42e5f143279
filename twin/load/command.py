"""`python3 -m twin load`, from the command line's words to the plot."""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from modelctl.loadgen import Schedule
from modelctl.repository.model import Model
from spec.files import write_whole
from spec.names import TRITON_NAMESPACE
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeApi
from twin.engine import stack_files
from twin.host.home import REPOSITORY, TwinHome
from twin.load import report, requests, scaling
from twin.load.display import Display, display
from twin.load.messages import MessageLoad, Queue, message_of
from twin.load.plot import plot
from twin.load.record import Moment, Tally
from twin.load.refused import LoadRefused
from twin.load.requests import RequestLoad
from twin.load.scaling import Workload
from twin.load.watch import watch
from twin.services import release_sources
from twin.services.servers import Servers

_SEED = 1
_ALONE = "pipeline"
"""The model of the load if nothing scales."""
Prepare = Callable[[KubeApi], RequestLoad | MessageLoad]
"""Creates the load, inside the event loop that it runs in."""


@dataclass(frozen=True)
class Wanted:
    """The settings of a load: `rate` requests/s for `seconds`.

    `model` None: the slow one, if there is one. `queue`: send messages to the request queue. `follow_seconds`: how long to
    watch the pods after it, None: until there are as few as before.
    """

    rate: float
    seconds: float
    model: str | None = None
    queue: bool = False
    follow_seconds: float | None = None


def load(home: TwinHome, servers: Servers, wanted: Wanted, console: Console) -> int:
    """Send a load to a running twin, and show it; return the number of failed requests.

    Ctrl-C ends it with the results so far. Raises LoadRefused, or EngineError.
    """
    scaled = stack_files.autoscaling(home)
    name = wanted.model or (release_sources.SLOW_MODEL if scaled else _ALONE)
    model = requests.model_of(release_sources.directory(home), name)
    parts = parts_of(home, name)
    prepare = _messages(servers, wanted, model) if wanted.queue else _requests(wanted, model, parts)
    workloads = [scaling.WORKERS] if wanted.queue else [Workload(TRITON_NAMESPACE, deployment) for deployment in parts]
    title = f"{wanted.rate:g} {'messages' if wanted.queue else 'requests'}/s for {wanted.seconds:g} s to {name}"
    with display(console) as show:
        show.say(f"{title}, at random moments as from independent clients")
        if not scaled:
            show.say("nothing scales here: `make up AUTOSCALING=1` adds what does")
        if len(parts) > 1 and not wanted.queue:
            show.say(f"parts of the requests: {', '.join(f'{fleet} {part}' for fleet, part in parts.items())}")
        tally, moments = asyncio.run(_watch(home, prepare, workloads, show, wanted.follow_seconds))
    for line in report.lines(tally, moments):
        console.print(line, markup=False)
    if moments:
        console.print(f"plot: {_draw(home, moments, title)}", markup=False)
    return tally.failures.total()


def parts_of(home: TwinHome, model: str, program: Path = REPOSITORY) -> dict[str, int]:
    """Return, by the name of a fleet's Service and Deployment, its share of a model's requests. Raises LoadRefused."""
    fleets = stack_files.fleets(home, stack_files.STACK, program)
    parts = {fleet.release: fleet.weight(model) for fleet in fleets if fleet.serves(model) and fleet.weight(model)}
    if not parts:
        raise LoadRefused(f"no fleet of the stack serves {model}")
    return parts


def _requests(wanted: Wanted, model: Model, parts: Mapping[str, int]) -> Prepare:
    inputs = requests.inputs_of(model)
    return lambda api: RequestLoad(api, _schedule(wanted), model.name, inputs, parts)


def _messages(servers: Servers, wanted: Wanted, model: Model) -> Prepare:
    outputs = servers.engine().outputs(stack_files.STACK)
    if "requestQueueUrl" not in outputs:
        raise LoadRefused("there is no request queue: the stack file has no section triton-eks:worker")
    queue, body = Queue(servers.aws_url, outputs["region"], outputs), message_of(model)
    return lambda _: MessageLoad(queue, _schedule(wanted), model.name, body)


def _schedule(wanted: Wanted) -> Schedule:
    return Schedule.poisson(wanted.rate, wanted.seconds, _SEED)


async def _watch(
    home: TwinHome, prepare: Prepare, workloads: Sequence[Workload], show: Display, follow_seconds: float | None
) -> tuple[Tally, list[Moment]]:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    api = KubeApi(home.load_endpoints().api_server_url or "", Pki(home.pki).client_context(certificates.ADMIN))
    try:
        sent = prepare(api)
        return sent.tally, await watch(sent, functools.partial(scaling.look, api, workloads), show, stop, follow_seconds)
    finally:
        await api.close()


def _draw(home: TwinHome, moments: list[Moment], title: str) -> Path:
    path = home.path / "loads" / f"{time.strftime('%Y-%m-%dT%H-%M-%SZ', time.gmtime())}.svg"
    write_whole(path, plot(moments, title).encode(), mode=0o644)
    return path
