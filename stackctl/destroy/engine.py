"""Run the `pulumi` commands that a teardown needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console import pulumi_program
from console.pulumi_program import PulumiFailed
from stackctl.destroy import state
from stackctl.destroy.state import Resource


@dataclass(frozen=True)
class Engine:
    """`pulumi` from PATH for one stack, with the environment's backend and credentials."""

    stack: str

    def resources(self) -> list[Resource]:
        """Return the resources in the stack's state. Secrets in it stay encrypted. Raises PulumiUnusable."""
        return state.read(pulumi_program.deployment(self.stack))

    def destroy(self, targets: Sequence[str] = ()) -> None:
        """Delete the targets and their dependents, or, without targets, everything. Raises PulumiFailed."""
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
