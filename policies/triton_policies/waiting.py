"""Checks that a preview cannot make yet, reported once per stack. A line per resource would hide the violations."""

from __future__ import annotations

from dataclasses import dataclass, field

NAME = "judged-at-up"
"""The name in the pack of the policy that lists the waiting checks."""
SAYS = "A preview says which checks wait for values that it cannot know."


@dataclass
class Waiting:
    """The waiting checks of one run. The pack's process collects them while the engine registers resources."""

    _checks: list[tuple[str, str]] = field(default_factory=list)

    def add(self, policy: str, place: str) -> None:
        """Add a check. `place` is the unknown property, with its resource before it."""
        self._checks.append((policy, place))

    def take(self) -> str | None:
        """Return all checks as one sentence and clear them; None if there are no checks."""
        checks, self._checks = sorted(set(self._checks)), []
        if not checks:
            return None
        places: dict[str, list[str]] = {}
        for policy, place in checks:
            places.setdefault(policy, []).append(place)
        listed = ", ".join(f"{policy} ({', '.join(found)})" for policy, found in places.items())
        many = "1 check waits" if len(checks) == 1 else f"{len(checks)} checks wait"
        return (
            f"{many} for values that are known only while `pulumi up` runs. The policies run again there, and a mandatory "
            f"one still refuses: {listed}"
        )
