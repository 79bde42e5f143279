"""The teardown itself: phase by phase, each with its wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stackctl.destroy.engine import Engine
from stackctl.destroy.state import EVERYTHING, IN_CLUSTER, MAKERS, Phase
from stackctl.destroy.waits import Finder, until_gone
from stackctl.orphans import computing, networking
from stackctl.orphans.find import leftovers
from stackctl.orphans.leftover import Leftover
from stackctl.orphans.search import Search

_BEHIND_PULUMIS_BACK: Sequence[Finder] = (networking.load_balancers, networking.target_groups, computing.node_claims)
_VOLUMES: Sequence[Finder] = (computing.claimed_volumes,)
_SECONDS = 1800
"""A node is drained before it goes, and a load balancer drains its connections."""


@dataclass(frozen=True)
class Teardown:
    """One run. `look` begins a search of the account, `say` tells a person how it goes."""

    engine: Engine
    look: Callable[[], Search]
    say: Callable[[str], None]
    seconds: float = _SECONDS
    poll_seconds: float = 10.0

    def run(self) -> list[Leftover]:
        """Take everything away; returns what AWS still has afterwards, but for what is meant to stay (`retained`).

        Raises EngineFailed, StillThere: what is gone is gone, and another run goes on from there.
        """
        kept = {resource.id for resource in self.engine.resources() if resource.retained}
        self._phase(MAKERS, _BEHIND_PULUMIS_BACK)
        self._phase(IN_CLUSTER, _VOLUMES)
        self.say(f"{EVERYTHING.name}: {EVERYTHING.why}")
        self.engine.destroy()
        return [item for item in leftovers(self.look()) if item.id not in kept]

    def _phase(self, phase: Phase, late: Sequence[Finder]) -> None:
        targets = phase.targets(self.engine.resources())
        if targets:
            self.say(f"{phase.name} ({len(targets)}, and what depends on them): {phase.why}")
            self.engine.destroy(targets)
        # Also without targets: a run before this one may have ended between the two.
        until_gone(self.look, late, self.seconds, self.say, poll_seconds=self.poll_seconds)
