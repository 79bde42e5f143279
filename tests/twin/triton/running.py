"""A real tritonserver on its own loopback address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.modelctl.servers import loopback_address, process, wait_until
from twin.triton.tritonserver import tritonserver_command


@contextmanager
def ready_server(folder: Path, options: Sequence[str] = ()) -> Iterator[tuple[str, Path]]:
    """Yield the address and the log of a ready server of `folder/models`; the block's end stops it."""
    address, log = loopback_address(), folder / "log"
    arguments = [f"--model-repository={folder / 'models'}", "--disable-auto-complete-config", *options]
    command = tritonserver_command(arguments, address, folder / "cache", {})
    with process(command.argv, command.env, log) as child:

        def ready() -> bool:
            assert child.poll() is None, log.read_text(errors="replace")
            try:
                return httpx.get(f"http://{address}:8000/v2/health/ready", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(ready, "the server to be ready", 60, log)
        yield address, log
