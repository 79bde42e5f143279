"""Run a command as its user does, in this process."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from console import program


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def run(name: str, *arguments: object) -> Ended:
    """Run `stackctl`, `modelctl` or `twin` with these arguments, without preparing environment and signals."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        exit_code = program.run(name, [str(argument) for argument in arguments])
    return Ended(exit_code, stdout.getvalue(), stderr.getvalue())
