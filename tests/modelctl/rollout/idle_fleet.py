"""A fleet for read-only code: no pod answers, and restarts and updates of clients fail."""

from collections.abc import Mapping

from modelctl.rollout.fleet import FleetError, Pod, ServedVersion


class IdleFleet:
    """`pods` do not answer; None: they cannot be listed. `release`: the release that all pods were started with.

    `served`: the versions that clients use.
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
