"""Run the `pulumi` program, as far as a teardown needs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from stackctl.destroy import state
from stackctl.destroy.state import Resource

_EXPORT_SECONDS = 300
_RESOURCE = {"urn": str, "id": str, "type": str, "custom": bool, "protect": bool, "retainOnDelete": bool, "inputs": {}}
_EXPORTED = {"deployment": {"resources": [_RESOURCE]}}
"""Of apitype.UntypedDeployment (pulumi sdk/go/common/apitype/core.go), what is read here."""


class EngineFailed(Failure):
    """`pulumi` ended with an error; the text says what to do."""


class EngineUnusable(EngineFailed):
    """`pulumi` or the state of the stack is missing or cannot be read, so that nothing was begun."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Engine:
    """`pulumi` from PATH for one stack, with the backend and the credentials of the environment."""

    stack: str

    def resources(self) -> list[Resource]:
        """Return what the stack's state holds. Secrets in it stay encrypted. Raises EngineUnusable."""
        command = ["pulumi", "stack", "export", "--stack", self.stack]
        done = self._run(command, capture=True)
        if done.returncode != 0:
            raise EngineUnusable(f"the state of {self.stack} cannot be read: {done.stderr.strip()}")
        try:
            exported = reading.checked(
                reading.json_object(done.stdout, reading.DEEPEST_OF_THE_ENGINE), _EXPORTED, "the export"
            )
            return state.read(exported.get("deployment") or {})
        except Unreadable as error:
            raise EngineUnusable(
                f"the state of {self.stack} cannot be read: of what `pulumi stack export` prints, {error}; is the pulumi on "
                "PATH Pulumi's?"
            ) from None

    def destroy(self, targets: Sequence[str] = ()) -> None:
        """Delete the targets and what depends on them, or, without targets, everything. Raises EngineFailed."""
        command = ["pulumi", "destroy", "--stack", self.stack, "--yes", "--skip-preview", "--non-interactive"]
        for urn in targets:
            command += ["--target", urn]
        if targets:
            command.append("--target-dependents")
        if self._run(command).returncode != 0:
            raise EngineFailed(
                f"`pulumi destroy` of {self.stack} ended with an error, which stands above. What is gone is gone; mend the "
                "cause and run the same command again, it goes on from here"
            )

    def _run(self, command: Sequence[str], *, capture: bool = False) -> subprocess.CompletedProcess[str]:
        # With "true" Pulumi would forget what is in a cluster that does not answer, and AWS would go on billing it.
        environment = {**os.environ, "PULUMI_K8S_DELETE_UNREACHABLE": "false"}
        try:
            return subprocess.run(
                command,
                env=environment,
                encoding="utf-8",
                errors="replace",
                capture_output=capture,
                timeout=_EXPORT_SECONDS if capture else None,
                check=False,
            )
        except FileNotFoundError:
            raise EngineUnusable("there is no pulumi on PATH: https://www.pulumi.com/docs/install/") from None
        except OSError as error:
            raise EngineUnusable(f"pulumi on PATH cannot be run: {error.strerror}; install it anew") from None
        except subprocess.TimeoutExpired:
            raise EngineUnusable(f"`{' '.join(command)}` has not ended after {_EXPORT_SECONDS} s") from None
