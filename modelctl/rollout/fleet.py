"""The pods that serve, and the versions that clients ask them for: what a rollout needs of wherever Triton runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from modelctl.rollout.served import ServedVersion
from spec.failure import NOT_TRIED, Failure


class FleetError(Failure):
    """The pods or the served versions cannot be read or changed; the text is one sentence."""

    exit_code = NOT_TRIED


class FleetAbsent(FleetError):
    """There is no place for the served versions yet: Triton has not been installed there."""


@dataclass(frozen=True)
class Pod:
    """One Triton. `http` and `metrics` are base URLs; `uid` changes when it is replaced; `admin_key` opens its load API."""

    name: str
    uid: str
    http: str
    metrics: str
    admin_key: str


class Fleet(Protocol):
    """All pods of one Triton. Every method raises FleetError."""

    def pods(self) -> list[Pod]:
        """Return every pod that has an address and is not on its way out, ready or not, by name."""

    def restart(self, pod: Pod) -> None:
        """End this pod, draining it; whatever looks after pods puts another in its place. Returns when it is gone."""

    def served(self) -> dict[str, ServedVersion]:
        """Return what clients are told to ask for; empty before the first rollout."""

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        """Tell clients of all these models at once (None: of no version any more); other models stay as they are.

        Raises FleetAbsent too.
        """
