"""Run the teardown phase by phase, and wait after each phase.

AWS deletes some resources late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spec.failure import Failure
from stackctl.destroy.engine import Engine
from stackctl.destroy.state import EVERYTHING, IN_CLUSTER, MAKERS, Phase
from stackctl.orphans import computing, networking
from stackctl.orphans.find import leftovers
from stackctl.orphans.search import Leftover, Search

Finder = Callable[[Search], Iterator[Leftover]]

_POLL_SECONDS = 10.0
_SECONDS = 1800
"""A node is drained before its deletion, and a load balancer drains its connections."""


class StillThere(Failure):
    """Resources still exist after the timeout. The text names them and the logs to read."""


class BroughtBack(Failure):
    """Another user changed the stack between two phases. The text names the returned resources."""


def until_gone(
    look: Callable[[], Search],
    finders: Sequence[Finder],
    seconds: float,
    say: Callable[[str], None],
    *,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Wait until the finders find no resource; print the remaining ones whenever they change.

    `look` begins a new search each time. Raises StillThere after `seconds`.
    """
    deadline, said = time.monotonic() + seconds, ""
    while True:
        search = look()
        left = [item for finder in finders for item in finder(search)]
        if not left:
            return
        names = ", ".join(f"{item.kind} {item.id}" for item in left)
        if time.monotonic() > deadline:
            raise StillThere(
                f"still there after {seconds:g} s: {names}. Nothing that takes them away was removed: look at the log of "
                "their controller in the cluster, then run the same command again"
            )
        if names != said:
            say(f"  waiting for AWS to delete {names} ...")
            said = names
        time.sleep(poll_seconds)


_BEHIND_PULUMIS_BACK: Sequence[Finder] = (networking.load_balancers, networking.target_groups, computing.node_claims)
_VOLUMES: Sequence[Finder] = (computing.claimed_volumes,)


@dataclass(frozen=True)
class Teardown:
    """One teardown. `look` begins a search of the account; `say` prints the progress."""

    engine: Engine
    look: Callable[[], Search]
    say: Callable[[str], None]
    seconds: float = _SECONDS
    poll_seconds: float = _POLL_SECONDS

    def run(self) -> list[Leftover]:
        """Delete everything; return the resources that AWS still has, except `retained` ones.

        Raises PulumiFailed, StillThere, BroughtBack. Deleted resources stay deleted, and another run continues from
        there.
        """
        kept = {resource.id for resource in self.engine.resources() if resource.retained}
        self._phase(MAKERS, _BEHIND_PULUMIS_BACK)
        self._refuse_what_is_there_again(MAKERS)
        self._phase(IN_CLUSTER, _VOLUMES)
        self._refuse_what_is_there_again(IN_CLUSTER)
        self.say(f"{EVERYTHING.name}: {EVERYTHING.why}")
        self.engine.destroy()
        return [item for item in leftovers(self.look()) if item.id not in kept]

    def _phase(self, phase: Phase, late: Sequence[Finder]) -> None:
        targets = phase.targets(self.engine.resources())
        if targets:
            self.say(f"{phase.name} ({len(targets)}, and what depends on them): {phase.why}")
            self.engine.destroy(targets)
        # Also without targets, because an earlier run may have stopped between the deletion and the wait.
        until_gone(self.look, late, self.seconds, self.say, poll_seconds=self.poll_seconds)

    def _refuse_what_is_there_again(self, done: Phase) -> None:
        """Raise BroughtBack if the state has resources of an earlier phase.

        Pulumi locks the state for each phase separately, so an `up` may run between them.
        """
        if back := done.targets(self.engine.resources()):
            raise BroughtBack(
                f"somebody has run `pulumi up` for {self.engine.stack} meanwhile: {len(back)} of its resources are there "
                f"again (first: {back[0]}). Agree on what is to be; to take the stack away, run the same command again"
            )
