"""Enter the checkout's `.venv` from any Python that started `python3 -m stackctl`, `modelctl` or `twin`."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / ".venv"
_NONE_YET = "this checkout has no Python environment yet: `make venv` makes it, and so does `make up`"


def enter(package: str) -> None:
    """Continue in the checkout's environment if it exists. Otherwise this Python is used if it has the required packages.

    Needs only the standard library. Exits with a message when the packages are missing; then `eval "$(…)"` of the output, as
    with `twin env`, is false.
    """
    python = DIRECTORY / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != DIRECTORY.resolve():
        # The new process handles Ctrl-C from its first import on (console.early_interrupt); until then the signal is
        # blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.execv(python, [str(python), "-m", package, *sys.argv[1:]])  # noqa: S606 - no shell is what is wanted
    if importlib.util.find_spec("typer") is None:
        if sys.argv[1:2] == ["env"]:
            print("false")
        print(f"error: {_NONE_YET}", file=sys.stderr)
        sys.exit(2)
