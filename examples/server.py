"""Run this machine's real tritonserver (PyPI, no Docker, no GPU) with examples/models, to try the clients.

python -m examples.server                # until Ctrl-C
python -m examples.server --address 127.0.0.3
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from examples.failures import stop
from twin.triton.tritonserver import TritonUnavailable, tritonserver_command

MODELS = Path(__file__).parent / "models"
CACHE_BYTES = 16 * 1024 * 1024
ARGUMENTS = [
    f"--model-repository={MODELS}",
    "--disable-auto-complete-config",
    "--exit-on-error=true",
    f"--cache-config=local,size={CACHE_BYTES}",
]


def main(address: Annotated[str, typer.Option(help="Where it listens: ports 8000 to 8002.")] = "127.0.0.1") -> None:
    """Serve examples/models here, in the foreground."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triton-eks"
    try:
        command = tritonserver_command(ARGUMENTS, address, cache, {"PYTHONDONTWRITEBYTECODE": "1"})
    except TritonUnavailable as problem:
        stop(str(problem))
    os.execve(command.argv[0], command.argv, command.env)  # noqa: S606  (Ctrl-C goes to the server itself)


if __name__ == "__main__":
    typer.run(main)
