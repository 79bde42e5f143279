"""`python -m twin`, with whatever Python it is typed: what runs is the checkout's own environment, once there is one."""

import importlib.util
import os
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parent.parent / ".venv"


def main() -> None:
    """Runs the command line, in `.venv` when there is one."""
    python = ENVIRONMENT / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), "-m", "twin", *sys.argv[1:]])  # noqa: S606 - no shell is what is wanted
    if importlib.util.find_spec("typer") is None:
        sys.exit("error: the Python environment of this checkout is not there yet: `make up` makes it (and the twin)")
    from twin.cli import main as command_line

    command_line()


main()
