"""A fleet for what only looks at pods: no pod answers, and whoever restarts one or tells clients something fails."""

from collections.abc import Mapping

from modelctl.rollout.fleet import FleetError, Pod, ServedVersion


class IdleFleet:
    """`pods`: at which nothing answers; None: they cannot be listed. `release`: the one that they all were started with.

    `served`: the versions that clients are told to ask for.
    """

    def __init__(
        self, pods: list[Pod] | None, release: str | None = None, served: Mapping[str, ServedVersion] | None = None
    ) -> None:
        self._pods = pods
        self._release = release
        self._served = dict(served or {})

    def all_fleets(self) -> dict[str, "IdleFleet"]:
        return {"triton": self}

    def pods(self) -> list[Pod]:
        if self._pods is None:
            raise FleetError("the cluster cannot be reached")
        return self._pods

    def release(self, pod: Pod) -> str | None:
        return self._release

    def restart(self, pod: Pod) -> None:
        raise AssertionError("nothing is restarted")

    def served(self) -> dict[str, ServedVersion]:
        return self._served

    def serve(self, versions: Mapping[str, ServedVersion | None]) -> None:
        raise AssertionError("nothing is changed")
