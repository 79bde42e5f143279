"""Send requests to a twin while something is done to it, and record the outcome of each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from modelctl.loadgen import Outcome, Schedule
from modelctl.repository.model import Model
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeApi
from twin.host import processes
from twin.host.home import TwinHome
from twin.load import requests
from twin.load.requests import RequestLoad

RATE = 10.0
"""Requests/s: one every tenth of a second, which is little work next to a server that starts on the same machine."""
_LONGEST_SECONDS = 3600.0
_SEED = 1
_FIRST_SECONDS = 60.0


@dataclass
class Sent:
    """A load. `outcomes`: one for each request that was due, in that order; empty until the load has ended."""

    load: RequestLoad | None = None
    outcomes: tuple[Outcome, ...] = ()

    @property
    def answered(self) -> int:
        """Return the number of successful responses so far."""
        return len(self.load.tally.answered) if self.load is not None else 0


@contextlib.contextmanager
def load(home: TwinHome, model: Model, parts: Mapping[str, int]) -> Iterator[Sent]:
    """Send requests to a model throughout the block, from the first response on, for at most an hour.

    No request is retried. `parts`: by Service of a fleet, its share of the requests. Raises LoadRefused if none of its
    pods is ready, DeadlinePassed if no request is answered.
    """
    sent = Sent()
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(asyncio.run, _send(home, model, parts, sent))
        try:
            processes.wait_until(lambda: running.done() or sent.answered, f"an answer of {model.name}", _FIRST_SECONDS)
            if not running.done():
                yield sent
        finally:
            if sent.load is not None and not running.done():
                sent.load.end()
        running.result()


async def _send(home: TwinHome, model: Model, parts: Mapping[str, int], sent: Sent) -> None:
    api = KubeApi(home.load_endpoints().api_server_url or "", Pki(home.pki).client_context(certificates.ADMIN))
    schedule = Schedule.poisson(RATE, _LONGEST_SECONDS, _SEED)
    try:
        sent.load = RequestLoad(api, schedule, model.name, requests.inputs_of(model), parts)
        await sent.load.run()
        sent.outcomes = sent.load.outcomes
    finally:
        await api.close()
