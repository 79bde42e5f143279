"""Read the GPU memory in use under load from Triton's metrics. It counts whole GPUs with all their processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

_USED = "nv_gpu_memory_used_bytes"
_ENERGY = "nv_energy_consumption"
_LABEL = "gpu_uuid"
_MIB = 2**20
_ANSWER_SECONDS = 5.0
_EVERY_SECONDS = 1.0
_POLL_SECONDS = 0.2
_NEW_SECONDS = 6.0
"""By then a server has read its GPUs again, which it does every two seconds by default (--metrics-interval-ms)."""

Used = Mapping[str, float]
"""Bytes in use by GPU. Empty if the server has no GPU, or has not read one yet."""


@dataclass(frozen=True)
class MemoryUse:
    """MiB in use on the GPU with the largest increase: before loading, loaded, and at most."""

    before_mib: int
    loaded_mib: int
    highest_mib: int

    @property
    def taken_mib(self) -> int:
        """Return the maximum that the models took, in MiB."""
        return self.highest_mib - self.before_mib


class GpuMemory:
    """The GPUs of a server that had no models loaded at creation. Created by `watched`."""

    def __init__(self, scrape: Callable[[], str], before: Used) -> None:
        self._scrape, self._before = scrape, before
        self._lock = threading.Lock()
        self._loaded: Used = {}
        self._highest: dict[str, float] = {}

    def loaded(self) -> None:
        """Record the use when all models are loaded and idle; later use counts as load."""
        now = _new(self._scrape)
        with self._lock:
            self._loaded, self._highest = now, dict(now)

    def use(self) -> MemoryUse | None:
        """Return the use since `loaded`; None if the server no longer reports it."""
        last = _new(self._scrape)
        self._note(last)
        gpus = self._before.keys() & self._loaded.keys() & last.keys()
        if not gpus:
            return None
        most = max(sorted(gpus), key=lambda gpu: self._highest[gpu] - self._before[gpu])
        return MemoryUse(*(round(used[most] / _MIB) for used in (self._before, self._loaded, self._highest)))

    def follow(self, ended: threading.Event) -> None:
        """Record the highest use until the event."""
        while not ended.wait(_EVERY_SECONDS):
            self._note(_read(self._scrape)[0])

    def _note(self, used: Used) -> None:
        with self._lock:
            for gpu, now in used.items():
                self._highest[gpu] = max(now, self._highest.get(gpu, 0.0))


@contextmanager
def watched(address: str, say: Callable[[str], None]) -> Iterator[GpuMemory | None]:
    """Follow and yield the GPU memory of the server with metrics at `address` (host:port). None if it has no GPU.

    Also None if the address does not respond, which is reported. The server must have no models loaded.
    """
    with httpx.Client(timeout=_ANSWER_SECONDS, trust_env=False) as client:

        def scrape() -> str:
            return client.get(f"http://{address}/metrics").raise_for_status().text

        try:
            scrape()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            say(f"no metrics at {address} ({error}): GPU memory is not measured; name their port with --metrics HOST:PORT")
            yield None
            return
        before = _new(scrape)
        if not before:
            yield None
            return
        memory, ended = GpuMemory(scrape, before), threading.Event()
        follower = threading.Thread(target=memory.follow, args=(ended,), daemon=True)
        follower.start()
        try:
            yield memory
        finally:
            ended.set()
            follower.join()


def _new(scrape: Callable[[], str]) -> Used:
    """Return the current use, not the server's last reading: its energy counter grows with each reading.

    For a GPU without such a counter, wait as long as a reading may take.
    """
    end = time.monotonic() + _NEW_SECONDS
    used, first = _read(scrape)
    while (used or first) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        used, energy = _read(scrape)
        if first and all(energy.get(gpu) != joules for gpu, joules in first.items()):
            break
    return used


def _read(scrape: Callable[[], str]) -> tuple[Used, Mapping[str, float]]:
    """Return the bytes in use and the energy (J) by GPU. Empty if the server does not respond.

    A GPU with no memory in use has not been read yet, because the server itself takes some.
    """
    found: dict[str, dict[str, float]] = {_USED: {}, _ENERGY: {}}
    try:
        lines = [line for line in scrape().splitlines() if line.startswith((_USED, _ENERGY))]
        for family in text_string_to_metric_families("\n".join(lines)):
            for sample in family.samples:
                found[sample.name][sample.labels[_LABEL]] = sample.value
    except (httpx.HTTPError, ValueError, KeyError):
        return {}, {}
    return {gpu: used for gpu, used in found[_USED].items() if used > 0}, found[_ENERGY]
