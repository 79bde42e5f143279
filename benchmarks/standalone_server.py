"""Run a real Triton for a measurement, as `python -m twin triton`, in explicit mode and without loaded models."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]


class Addresses(NamedTuple):
    """The server's addresses: HOST:PORT each."""

    grpc: str
    http: str
    metrics: str


@contextlib.contextmanager
def triton(models: Path, env: Mapping[str, str], log: int = subprocess.DEVNULL) -> Iterator[Addresses]:
    """Yield the addresses of a server over `models`; `env` is added to its environment, and its log goes to `log`."""
    command = [sys.executable, "-m", "twin", "triton", str(models)]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the caller, which still has to unload
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            said = re.match(r"gRPC (\S+), HTTP (\S+), metrics (\S+)", line)
            if said is None:
                raise SystemExit(f"no server: `{' '.join(command[1:])}` said {line.strip()!r}; run it to see why")
            yield Addresses(*said.groups())
        finally:
            process.terminate()
