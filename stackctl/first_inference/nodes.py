"""Detect early that no node will start for unschedulable pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from spec.settings.nodes import SYSTEM_GROUP_NAME
from stackctl.account.cluster import Cluster, Pod
from stackctl.eks_health import Ailment

NODE_SECONDS = 300.0
"""How long a pod may wait without a promised node. An autoscaler answers within a minute."""
_NODE_STARTS = timedelta(minutes=15)
"""Karpenter gives up an instance that has not joined after this time.

Cluster-autoscaler gives up a group's request after the same time.
"""
_LOOK_SECONDS = 15.0
_NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


class NodeWait:
    """The wait for nodes of one fleet, which run in `pool`.

    `ailments` returns the cluster's problems, and `report` a sentence about one.
    """

    def __init__(
        self, cluster: Cluster, pool: str | None, ailments: Callable[[], Sequence[Ailment]], report: Callable[[Ailment], str]
    ) -> None:
        self._cluster = cluster
        self._pools = {pool, SYSTEM_GROUP_NAME}
        self._ailments = ailments
        self._report = report
        self._next_look = 0.0
        self._promised = time.monotonic()

    def causes(self, pods: Sequence[Pod]) -> list[str]:
        """Return why no node starts, one reason a line; empty while one may.

        Raises ClusterUnusable.
        """
        now = time.monotonic()
        waiting = [pod for pod in pods if pod.unschedulable]
        if not waiting:
            self._promised = now
            return []
        if now < self._next_look:
            return []
        self._next_look = now + _LOOK_SECONDS
        # A group in creation has failed as soon as its first launch has failed.
        try:
            ailing = [one for one in self._ailments() if one.pool in self._pools]
        except (ClientError, BotoCoreError):
            ailing = []  # the pods' events still show the reason
        if ailing:
            return [self._report(one) for one in ailing]
        events = {pod.name: self._cluster.autoscaler_event(pod.name) for pod in waiting}
        since = datetime.now(UTC) - _NODE_STARTS
        promised = any(event.promise and event.at > since for event in events.values() if event is not None)
        if promised or self._cluster.objects(_NODE_CLAIMS):
            self._promised = now
        if now - self._promised < NODE_SECONDS:
            return []
        return [
            f"no node that can hold it has started for {NODE_SECONDS:g} s, and none is on its way",
            *(f"{name}: {event.text}" for name, event in events.items() if event is not None),
        ]
