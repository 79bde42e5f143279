"""Show the progress of a fetch in the log every few seconds, and as Prometheus metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.filesize import decimal

from modelctl.store.manifest import Manifest
from spec.names import FETCH_METRIC, release_label

SECONDS_BETWEEN_LINES = 5.0


class Progress(Collector):
    """Counts the progress of a release; called by several threads.

    `received`: bytes from the network. `found`: bytes that an earlier fetch left here. `verified`: bytes that are hashed.
    `say` logs a line.
    """

    def __init__(self, manifest: Manifest, say: Callable[[str], None]) -> None:
        self._release = release_label(manifest.id)
        self._files = len(manifest.objects)
        self._size = manifest.bytes
        self.say = say
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self.received = self.found = self.verified = self.repeated = self.files_verified = 0

    def add(self, *, received: int = 0, found: int = 0, verified: int = 0, repeated: int = 0, files: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self.received += received
            self.found += found
            self.verified += verified
            self.repeated += repeated
            self.files_verified += files

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._begun

    def summary(self) -> str:
        """Return a summary for the last line."""
        speed = f" ({decimal(int(self.received / max(self.seconds, 0.001)))}/s)" if self.received else ""
        return f"{decimal(self.received)} received in {self.seconds:.1f} s{speed}, {decimal(self.found)} found here"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Log the progress every few seconds."""
        ended = threading.Event()

        def tell() -> None:
            before = 0
            while not ended.wait(SECONDS_BETWEEN_LINES):
                speed, before = (self.received - before) / SECONDS_BETWEEN_LINES, self.received
                self.say(
                    f"{self._release}: {decimal(self.received + self.found)} of {decimal(self._size)} here, "
                    f"{self.files_verified} of {self._files} files verified, {decimal(int(speed))}/s"
                )

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, labelled with the release."""
        gauges = {
            FETCH_METRIC: ("Size of the release that is being fetched.", self._size),
            "model_fetch_found_bytes": ("Bytes that were on the disk when the fetch began.", self.found),
            "model_fetch_verified_bytes": ("Bytes on the disk whose hash is taken.", self.verified),
        }
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(name, text, labels=["release"])
            gauge.add_metric([self._release], value)
            yield gauge
        counters = {
            "model_fetch_received_bytes": ("Bytes received from the bucket.", self.received),
            "model_fetch_repeated_requests": ("Requests that were sent again after a connection broke.", self.repeated),
        }
        for name, (text, value) in counters.items():
            counter = CounterMetricFamily(name, text, labels=["release"])
            counter.add_metric([self._release], value)
            yield counter
