"""Run the `pulumi` program from PATH, with the backend and the credentials of the environment."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

_RESOURCE = {"urn": str, "id": str, "type": str, "custom": bool, "protect": bool, "retainOnDelete": bool, "inputs": {}}
_EXPORTED = {"deployment": {"resources": [_RESOURCE]}}
"""The parts of apitype.UntypedDeployment (pulumi sdk/go/common/apitype/core.go) that are read here."""
ASKED_SECONDS = 300
"""Time limit in seconds for a query; commands that create or delete resources have none."""


class PulumiFailed(Failure):
    """`pulumi` ended with an error; the text gives the remedy."""


class PulumiUnusable(PulumiFailed):
    """`pulumi` or its result is missing or unreadable, so no change was started."""

    exit_code = NOT_TRIED


def ask(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run `pulumi <arguments>`, which creates and deletes no resource, and return its output. Raises PulumiUnusable."""
    command = ["pulumi", *arguments]
    try:
        with _sentences():
            return subprocess.run(
                command,
                env=_environment(),
                encoding="utf-8",
                errors="replace",
                capture_output=True,
                timeout=ASKED_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise PulumiUnusable(f"`{' '.join(command)}` has not ended after {ASKED_SECONDS} s") from None


def run(arguments: Sequence[str], seconds: float | None = None) -> int:
    """Run `pulumi <arguments>` on this terminal, for at most `seconds`; return its exit code.

    It is never killed, because that would leave its lock on the stack, and the state would miss resources it had begun. At
    Ctrl-C, which reaches it too, and when the time is over, it finishes what it has begun, and this waits for it. Raises
    PulumiUnusable if it cannot be run, and PulumiFailed when the time is over.
    """
    command = ["pulumi", *arguments]
    with _sentences():
        process = subprocess.Popen(command, env=_environment())
    try:
        return process.wait(timeout=None if seconds is None else max(0.0, seconds))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise PulumiFailed(f"`{' '.join(command)}` had not ended after {seconds:.0f} s, and was interrupted") from None
    except KeyboardInterrupt:
        process.wait()
        raise


def _environment() -> dict[str, str]:
    # With "true", Pulumi would forget the resources in an unreachable cluster, and AWS would continue to bill them.
    return {**os.environ, "PULUMI_K8S_DELETE_UNREACHABLE": "false"}


@contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise PulumiUnusable("there is no pulumi on PATH: https://www.pulumi.com/docs/install/") from None
    except OSError as error:
        raise PulumiUnusable(f"pulumi on PATH cannot be run: {error.strerror}; install it anew") from None


def outputs(stack: str) -> dict[str, Any]:
    """Return the outputs of a stack by name, without secrets; empty before its first `up`. Raises PulumiUnusable."""
    done = ask(["stack", "output", "--json", "--stack", stack])
    if done.returncode != 0:
        raise PulumiUnusable(f"the outputs of {stack} cannot be read: {done.stderr.strip()}")
    try:
        return reading.json_object(done.stdout, reading.DEEPEST_OF_THE_ENGINE)
    except Unreadable as error:
        raise PulumiUnusable(
            f"the outputs of {stack} cannot be read: of what `pulumi stack output` prints, {error}; is the pulumi on PATH "
            "Pulumi's?"
        ) from None


def deployment(stack: str) -> dict[str, Any]:
    """Return a stack's state (`pulumi stack export`). Secrets in it stay encrypted. Raises PulumiUnusable."""
    done = ask(["stack", "export", "--stack", stack])
    if done.returncode != 0:
        raise PulumiUnusable(f"the state of {stack} cannot be read: {done.stderr.strip()}")
    try:
        exported = reading.checked(reading.json_object(done.stdout, reading.DEEPEST_OF_THE_ENGINE), _EXPORTED, "the export")
        for position, found in enumerate((exported.get("deployment") or {}).get("resources") or ()):
            for key in ("urn", "type"):
                if not found.get(key):
                    raise Unreadable(f"resource {position} has no {key}")
    except Unreadable as error:
        raise PulumiUnusable(
            f"the state of {stack} cannot be read: of what `pulumi stack export` prints, {error}; is the pulumi on PATH "
            "Pulumi's?"
        ) from None
    return exported.get("deployment") or {}


def ended_well(stack: str) -> bool:
    """Return whether the stack's last update succeeded; True before the first update. Raises PulumiUnusable.

    After a failed update, the outputs may describe resources that were not created.
    """
    done = ask(["stack", "history", "--json", "--page-size", "1", "--stack", stack])
    if done.returncode != 0:
        raise PulumiUnusable(f"the history of {stack} cannot be read: {done.stderr.strip()}")
    try:
        found = reading.json_value(done.stdout, reading.DEEPEST_OF_THE_ENGINE)
        return all(update.get("result") == "succeeded" for update in reading.checked(found, [{"result": str}], "it"))
    except Unreadable as error:
        raise PulumiUnusable(
            f"the history of {stack} cannot be read: of what `pulumi stack history` prints, {error}; is the pulumi on PATH "
            "Pulumi's?"
        ) from None
