"""Run the `pulumi` program, as far as a teardown needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console import pulumi_program
from console.pulumi_program import PulumiFailed, PulumiUnusable
from spec import reading
from spec.reading import Unreadable
from stackctl.destroy import state
from stackctl.destroy.state import Resource

_RESOURCE = {"urn": str, "id": str, "type": str, "custom": bool, "protect": bool, "retainOnDelete": bool, "inputs": {}}
_EXPORTED = {"deployment": {"resources": [_RESOURCE]}}
"""Of apitype.UntypedDeployment (pulumi sdk/go/common/apitype/core.go), what is read here."""


@dataclass(frozen=True)
class Engine:
    """`pulumi` from PATH for one stack, with the backend and the credentials of the environment."""

    stack: str

    def resources(self) -> list[Resource]:
        """Return what the stack's state holds. Secrets in it stay encrypted. Raises PulumiUnusable."""
        done = pulumi_program.ask(["stack", "export", "--stack", self.stack])
        if done.returncode != 0:
            raise PulumiUnusable(f"the state of {self.stack} cannot be read: {done.stderr.strip()}")
        try:
            exported = reading.checked(
                reading.json_object(done.stdout, reading.DEEPEST_OF_THE_ENGINE), _EXPORTED, "the export"
            )
            return state.read(exported.get("deployment") or {})
        except Unreadable as error:
            raise PulumiUnusable(
                f"the state of {self.stack} cannot be read: of what `pulumi stack export` prints, {error}; is the pulumi on "
                "PATH Pulumi's?"
            ) from None

    def destroy(self, targets: Sequence[str] = ()) -> None:
        """Delete the targets and what depends on them, or, without targets, everything. Raises PulumiFailed."""
        command = ["destroy", "--stack", self.stack, "--yes", "--skip-preview", "--non-interactive"]
        for urn in targets:
            command += ["--target", urn]
        if targets:
            command.append("--target-dependents")
        if pulumi_program.run(command) != 0:
            raise PulumiFailed(
                f"`pulumi destroy` of {self.stack} ended with an error, which stands above. What is gone is gone; mend the "
                "cause and run the same command again, it goes on from here"
            )
