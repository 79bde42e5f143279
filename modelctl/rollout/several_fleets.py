"""Combine a stack's fleets for rollouts. Several fleets may serve one model, so they change together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from modelctl.rollout.fleet import Fleet, Pod, ServedVersion


class SeveralFleets:
    """The fleets of a stack by name, each with its models, as one `Fleet`. Its pods know their models."""

    def __init__(self, fleets: Mapping[str, tuple[Fleet, frozenset[str]]]) -> None:
        self._fleets = fleets
        self._any = next(fleet for fleet, _ in fleets.values())

    def pods(self) -> list[Pod]:
        """See `Fleet`."""
        found = [
            replace(pod, fleet=name, models=models) for name, (fleet, models) in self._fleets.items() for pod in fleet.pods()
        ]
        return sorted(found, key=lambda pod: pod.name)

    def release(self, pod: Pod) -> str | None:
        """See `Fleet`."""
        return self._fleets[pod.fleet][0].release(pod)

    def restart(self, pod: Pod) -> None:
        """See `Fleet`."""
        self._fleets[pod.fleet][0].restart(pod)

    def served(self) -> dict[str, ServedVersion]:
        """See `Fleet`. The served versions are per model, whichever fleets serve it."""
        return self._any.served()

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        """See `Fleet`."""
        self._any.serve(versions)
