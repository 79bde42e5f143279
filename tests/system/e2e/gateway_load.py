"""Loads through the gateway that account for each request: answered and failed requests add up to the sent ones."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from twin.host import processes

MODEL = "classify"
VALUES = [5.25, 3.5, 1.75, 0.25]
BODY = {"inputs": [{"name": "NORMALIZED", "shape": [1, 4], "datatype": "FP32", "data": VALUES}]}
ANSWERED = "answered"
_SECONDS = 10.0

Ask = Callable[[], str]
"""Sends one request and returns its outcome: ANSWERED (or `by_version`), or another text."""


class Account:
    """The outcomes of the requests of a load, and the number of sent requests."""

    def __init__(self) -> None:
        self.sent = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def take(self, ask: Ask) -> None:
        """Send one request and record its outcome."""
        with self._lock:
            self.sent += 1
        outcome = ask()
        with self._lock:
            self.outcomes[outcome] += 1

    def grow(self, by: int) -> None:
        """Wait until the load has sent this number of further requests."""
        enough = self.sent + by
        processes.wait_until(lambda: self.sent >= enough, f"{enough} requests to be sent", 60, poll=0.1)

    def recover(self, by: int) -> None:
        """Wait until this number of consecutive requests has been answered."""
        answered, failed = 0, -1

        def in_a_row() -> bool:
            nonlocal answered, failed
            with self._lock:
                now = self.outcomes[ANSWERED], self.outcomes.total() - self.outcomes[ANSWERED]
            if now[1] != failed:
                answered, failed = now
            return now[0] >= answered + by

        processes.wait_until(in_a_row, f"{by} requests in a row to be answered", 60, poll=0.1)

    @property
    def answered(self) -> int:
        """Return the number of answered requests, after each request has an outcome."""
        assert self.sent == self.outcomes.total(), f"{self.sent} were sent, and {dict(self.outcomes)} came of them"
        return self.outcomes[ANSWERED]


def broken(account: Account) -> dict[str, int]:
    """Return the outcomes that only mean a missing or lost connection."""
    signs = ("StatusCode.UNAVAILABLE: ", "RemoteProtocolError: ", "ConnectError: ", "ReadError: ", "WriteError: ")
    return {outcome: count for outcome, count in account.outcomes.items() if outcome.startswith(signs)}


def infer_path(model: str = MODEL) -> str:
    return f"/v2/models/{model}/infer"


def by_version(version: str) -> str:
    """Return the outcome of a request that this version of the model answered, for senders with `versions`."""
    return f"{ANSWERED} by version {version}"


def over_http(address: str, *, reused: bool, named: Mapping[str, str] | None = None, versions: bool = False) -> Ask:
    """Return a sender of HTTP requests to host:port, on one lasting connection or each on a separate one.

    It reads their headers `named` at each request. `versions`: the outcome includes the version that answered.
    """
    client = httpx.Client(trust_env=False, timeout=_SECONDS)
    url = f"http://{address}{infer_path()}"

    def ask() -> str:
        try:
            if reused:
                answer = client.post(url, json=BODY, headers=named)
            else:
                answer = httpx.post(url, json=BODY, headers=named, trust_env=False, timeout=_SECONDS)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        if answer.status_code != 200:
            return f"HTTP {answer.status_code}: {answer.text[:100]}"
        return by_version(answer.json()["model_version"]) if versions else ANSWERED

    return ask


def tensors(values: Any = (VALUES,)) -> list[triton.InferInput]:
    """Return the input of one request over gRPC."""
    array = np.array(values, dtype=np.float32)
    tensor = triton.InferInput("NORMALIZED", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return [tensor]


def over_grpc(address: str, *, named: Mapping[str, str] | None = None, versions: bool = False) -> Ask:
    """Return a sender of gRPC requests to host:port, on one channel that reconnects itself; else as over HTTP."""
    client, inputs = triton.InferenceServerClient(address), tensors()

    def ask() -> str:
        try:
            answer = client.infer(MODEL, inputs, headers={**headers(MODEL), **(named or {})}, client_timeout=_SECONDS)
        except InferenceServerException as error:
            return f"{error.status()}: {error.message()[:100]}"
        return by_version(answer.get_response().model_version) if versions else ANSWERED

    return ask


@contextmanager
def load(*asks: Ask, rate: float = 8) -> Iterator[Account]:
    """Send requests in a thread for each of `asks`, at most `rate` a second in each, during the block."""
    account, stop = Account(), threading.Event()

    def work(ask: Ask) -> None:
        while not stop.is_set():
            begun = time.monotonic()
            account.take(ask)
            stop.wait(max(0.0, 1 / rate - (time.monotonic() - begun)))

    threads = [threading.Thread(target=work, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    try:
        yield account
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=3 * _SECONDS)
