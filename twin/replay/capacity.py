"""Pods and the nodes that they need: when one that is wanted can serve, and what runs, and is paid, meanwhile.

A pod takes a free place on a node, else the place of a warm pod, which gives way, else it waits for a node that is started
for it. A node that has been empty for KEEP_EMPTY_SECONDS goes, one at a time, as Karpenter's pools and the
cluster-autoscaler are set (infra/platform/karpenter_pools.py, helm-values/cluster-autoscaler/base.yaml).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twin.replay.contention import AnyServer

KEEP_EMPTY_SECONDS = 15 * 60
BETWEEN_REMOVALS_SECONDS = 60


@dataclass(frozen=True)
class Starts:
    """Seconds: from a pod without a node to one that can take it, and from there to a pod that serves."""

    node: float
    pod: float


@dataclass(frozen=True)
class Pool:
    """The nodes of a fleet. `fixed`: as many are always there, and none is started."""

    pods_per_node: int
    most_nodes: int
    fewest_nodes: int
    fixed: bool
    warm_pods: int
    gpus_per_node: int
    usd_per_hour: float | None


@dataclass(eq=False)
class Node:
    """`warm`: the places that warm pods hold."""

    ready_at: float
    pods: int = 0
    warm: int = 0
    empty_since: float | None = None


@dataclass(eq=False)
class Pod:
    """`servers`: one for each model. `ready_at` None: no node has room for it so far."""

    servers: list[AnyServer]
    scrape_at: int
    node: Node | None = None
    ready_at: float | None = None

    def is_ready(self, now: float) -> bool:
        """Return whether it serves."""
        return self.ready_at is not None and self.ready_at <= now

    def is_pending(self, now: float) -> bool:
        """Return whether no node has it yet, or one that is not there yet."""
        return self.node is None or self.node.ready_at > now


@dataclass
class Cluster:
    """The nodes of one fleet and their pods, in the order in which they were wanted."""

    pool: Pool
    starts: Starts
    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    _removed_at: float = float("-inf")

    def begin(self, pods: list[Pod], now: float) -> None:
        """Begin with pods that serve already, on the nodes that they need."""
        pool = self.pool
        needed = -(-(len(pods) + pool.warm_pods) // pool.pods_per_node)
        count = pool.most_nodes if pool.fixed else min(max(needed, pool.fewest_nodes), pool.most_nodes)
        self.nodes = [Node(ready_at=now) for _ in range(count)]
        for pod in pods:
            self.add(pod, now)
            if pod.node is not None:
                pod.ready_at = now
        self.settle(now)

    def add(self, pod: Pod, now: float) -> None:
        """Want a pod."""
        self.pods.append(pod)
        self._place(pod, now)

    def remove(self, pod: Pod) -> None:
        """Let a pod go. What it has accepted it answers; its place is free."""
        self.pods.remove(pod)
        if pod.node is not None:
            pod.node.pods -= 1

    def last(self, now: float) -> Pod:
        """Return the pod that a ReplicaSet deletes first: one without a node, one that is not ready, the newest.

        https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/controller_utils.go (`ActivePodsWithRanks`)
        """
        return max(self.pods, key=lambda pod: (pod.node is None, not pod.is_ready(now), pod.ready_at or 0.0))

    def settle(self, now: float) -> None:
        """Place what waits for room, keep warm pods, and let a node go that nobody needs."""
        for pod in self.pods:
            if pod.node is None:
                self._place(pod, now)
        for _ in range(self.pool.warm_pods - sum(node.warm for node in self.nodes)):
            node = self._with_room() or self._started(now)
            if node is None:
                break
            node.warm += 1
        self._let_go(now)

    def _place(self, pod: Pod, now: float) -> None:
        node = self._with_room() or self._given_way() or self._started(now)
        if node is None:
            return
        node.pods += 1
        pod.node = node
        pod.ready_at = max(now, node.ready_at) + self.starts.pod

    def _with_room(self) -> Node | None:
        """Return the node with room that is ready first."""
        free = [node for node in self.nodes if node.pods + node.warm < self.pool.pods_per_node]
        return min(free, key=lambda node: node.ready_at, default=None)

    def _given_way(self) -> Node | None:
        """Return a node on which a warm pod has made room."""
        held = [node for node in self.nodes if node.warm]
        node = min(held, key=lambda node: node.ready_at, default=None)
        if node is not None:
            node.warm -= 1
        return node

    def _started(self, now: float) -> Node | None:
        if self.pool.fixed or len(self.nodes) >= self.pool.most_nodes:
            return None
        node = Node(ready_at=now + self.starts.node)
        self.nodes.append(node)
        return node

    def _let_go(self, now: float) -> None:
        if self.pool.fixed:
            return
        for node in self.nodes:
            if node.pods or node.warm:
                node.empty_since = None
            elif node.empty_since is None:
                node.empty_since = max(now, node.ready_at)
        if len(self.nodes) <= self.pool.fewest_nodes or now - self._removed_at < BETWEEN_REMOVALS_SECONDS:
            return
        for node in self.nodes:
            if node.empty_since is not None and now - node.empty_since >= KEEP_EMPTY_SECONDS:
                self.nodes.remove(node)
                self._removed_at = now
                return
