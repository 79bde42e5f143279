"""The teardown itself: phase by phase, each with its wait for what AWS deletes late."""

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
"""A node is drained before it goes, and a load balancer drains its connections."""


class StillThere(Failure):
    """Something has not gone in time; the text says what, and what to look at."""


class BroughtBack(Failure):
    """Somebody else has changed the stack between two phases; the text says what is there again."""


def until_gone(
    look: Callable[[], Search],
    finders: Sequence[Finder],
    seconds: float,
    say: Callable[[str], None],
    *,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Wait until the finders find nothing, and say what is waited for whenever that changes.

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
    """One run. `look` begins a search of the account, `say` tells a person how it goes."""

    engine: Engine
    look: Callable[[], Search]
    say: Callable[[str], None]
    seconds: float = _SECONDS
    poll_seconds: float = _POLL_SECONDS

    def run(self) -> list[Leftover]:
        """Take everything away; returns what AWS still has afterwards, but for what is meant to stay (`retained`).

        Raises PulumiFailed, StillThere, BroughtBack: what is gone is gone, and another run goes on from there.
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
        # Also without targets: a run before this one may have ended between the two.
        until_gone(self.look, late, self.seconds, self.say, poll_seconds=self.poll_seconds)

    def _refuse_what_is_there_again(self, done: Phase) -> None:
        """Raise BroughtBack when an earlier phase's resources are in the state: Pulumi locks it for each phase alone."""
        if back := done.targets(self.engine.resources()):
            raise BroughtBack(
                f"somebody has run `pulumi up` for {self.engine.stack} meanwhile: {len(back)} of its resources are there "
                f"again (first: {back[0]}). Agree on what is to be; to take the stack away, run the same command again"
            )
