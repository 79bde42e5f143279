"""Run the `pulumi` program from PATH, with the backend and the credentials of the environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

ASKED_SECONDS = 300
"""How long a question may take; what makes or deletes resources takes as long as it does."""


class PulumiFailed(Failure):
    """`pulumi` ended with an error; the text says what to do."""


class PulumiUnusable(PulumiFailed):
    """`pulumi`, or what it was asked for, is missing or cannot be read, so that nothing was begun."""

    exit_code = NOT_TRIED


def run(arguments: Sequence[str], *, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `pulumi <arguments>` on this terminal, or with `capture` a question whose answer is returned.

    Raises PulumiUnusable where it cannot be run.
    """
    command = ["pulumi", *arguments]
    # With "true" Pulumi would forget what is in a cluster that does not answer, and AWS would go on billing it.
    environment = {**os.environ, "PULUMI_K8S_DELETE_UNREACHABLE": "false"}
    try:
        return subprocess.run(
            command,
            env=environment,
            encoding="utf-8",
            errors="replace",
            capture_output=capture,
            timeout=ASKED_SECONDS if capture else None,
            check=False,
        )
    except FileNotFoundError:
        raise PulumiUnusable("there is no pulumi on PATH: https://www.pulumi.com/docs/install/") from None
    except OSError as error:
        raise PulumiUnusable(f"pulumi on PATH cannot be run: {error.strerror}; install it anew") from None
    except subprocess.TimeoutExpired:
        raise PulumiUnusable(f"`{' '.join(command)}` has not ended after {ASKED_SECONDS} s") from None


def outputs(stack: str) -> dict[str, Any]:
    """Return the outputs of a stack by name, without secrets; empty before its first `up`. Raises PulumiUnusable."""
    done = run(["stack", "output", "--json", "--stack", stack], capture=True)
    if done.returncode != 0:
        raise PulumiUnusable(f"the outputs of {stack} cannot be read: {done.stderr.strip()}")
    try:
        return reading.json_object(done.stdout, reading.DEEPEST_OF_THE_ENGINE)
    except Unreadable as error:
        raise PulumiUnusable(
            f"the outputs of {stack} cannot be read: of what `pulumi stack output` prints, {error}; is the pulumi on PATH "
            "Pulumi's?"
        ) from None
