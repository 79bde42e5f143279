"""`python3 -m twin`, `python3 -m modelctl` and the like with whatever Python: what runs is the checkout's `.venv`."""

import importlib.util
import os
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / ".venv"


def enter(package: str) -> None:
    """Goes on in the checkout's environment, once there is one; this Python will do when it has what is needed.

    Needs nothing but the standard library. Exits with a sentence when the packages are missing; `eval "$(…)"` of the
    output, as with `twin env`, is false then.
    """
    python = DIRECTORY / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != DIRECTORY.resolve():
        os.execv(python, [str(python), "-m", package, *sys.argv[1:]])  # noqa: S606 - no shell is what is wanted
    if importlib.util.find_spec("typer") is None:
        if sys.argv[1:2] == ["env"]:
            print("false")
        sys.exit("error: this checkout has no Python environment yet: `make venv` makes it, and so does `make up`")
