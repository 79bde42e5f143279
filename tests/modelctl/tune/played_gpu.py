"""A GPU server's metrics port: its recorded scrape, with other values of used memory."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from tests.http_server import Handler, listening
from tests.paths import ROOT

RECORDED = (ROOT / "tests/spec/prometheus/recorded/server-2.51.0-gpu.prom").read_text()
CPU_ONLY = (ROOT / "tests/spec/prometheus/recorded/server-2.51.0.prom").read_text()
_GPU = re.compile(r'^(nv_gpu_memory_used_bytes|nv_energy_consumption)\{gpu_uuid="([^"]+)"\} .*$', re.MULTILINE)
_MIB = 2**20


class PlayedGpu:
    """A GPU with these `used` MiB in turn, the last one permanently; the server reads it at each third scrape.

    So each new reading of ours meets one of its own. Before the first one it returns 0, like real servers. `second` is a
    second GPU's constant usage.
    """

    def __init__(self, *used: int, every: int = 3, second: int | None = None) -> None:
        self._used, self._every, self._second = list(used), every, second
        self._shown, self._energy, self._scrapes = 0, 0.0, 0
        self.counts_energy = True
        self.address = ""

    def scrape(self) -> str:
        """Return the server's current metrics."""
        self._scrapes += 1
        if self._scrapes % self._every == 0:
            self._energy += 100
            self._shown = self._used[0]
            del self._used[: len(self._used) > 1]
        return _GPU.sub(self._series, RECORDED)

    def _series(self, found: re.Match[str]) -> str:
        name, gpu = found.groups()
        if name == "nv_energy_consumption":
            values = {gpu: self._energy, "GPU-second": self._energy} if self.counts_energy else {}
        else:
            values = {gpu: self._shown * _MIB, "GPU-second": (self._second or 0) * _MIB}
        if self._second is None:
            values.pop("GPU-second", None)
        return "\n".join(f'{name}{{gpu_uuid="{one}"}} {value}' for one, value in values.items())


@contextmanager
def serving(gpu: PlayedGpu | str) -> Iterator[str]:
    """Yield HOST:PORT of a GPU's metrics, or of a fixed recorded scrape."""

    class Metrics(Handler):
        def do_GET(self) -> None:
            text = gpu if isinstance(gpu, str) else gpu.scrape()
            self.answer(HTTPStatus.OK if self.path == "/metrics" else HTTPStatus.NOT_FOUND, text.encode())

    with listening(Metrics) as server:
        yield server.url.removeprefix("http://")
