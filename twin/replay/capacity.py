"""Pods and the nodes that they need: when a new pod can serve, and which nodes run and cost money until then.

A pod takes a free place on a node. Otherwise it takes the place of a warm pod, which is evicted.
Otherwise it waits for a new node. A node that has been empty for KEEP_EMPTY_SECONDS is removed, one at a time, like the
settings of Karpenter's pools and the cluster-autoscaler (infra/platform/karpenter_pools.py,
helm-values/cluster-autoscaler/base.yaml).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twin.replay.contention import AnyServer

KEEP_EMPTY_SECONDS = 15 * 60
BETWEEN_REMOVALS_SECONDS = 60


@dataclass(frozen=True)
class Starts:
    """Seconds from a pod without a node to a node that can take it, and from there to a serving pod."""

    node: float
    pod: float


@dataclass(frozen=True)
class Pool:
    """The nodes of a fleet. `fixed`: the number of nodes never changes."""

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
    """`servers`: one for each model. `ready_at` is None while no node has room for the pod."""

    servers: list[AnyServer]
    scrape_at: int
    node: Node | None = None
    ready_at: float | None = None

    def is_ready(self, now: float) -> bool:
        """Return whether the pod serves."""
        return self.ready_at is not None and self.ready_at <= now

    def is_pending(self, now: float) -> bool:
        """Return whether the pod has no node yet, or a node that is not ready yet."""
        return self.node is None or self.node.ready_at > now


@dataclass
class Cluster:
    """The nodes of one fleet and their pods, in the order in which the pods were created."""

    pool: Pool
    starts: Starts
    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    _removed_at: float = float("-inf")

    def begin(self, pods: list[Pod], now: float) -> None:
        """Start with pods that already serve, on the nodes that they need."""
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
        """Create a pod."""
        self.pods.append(pod)
        self._place(pod, now)

    def remove(self, pod: Pod) -> None:
        """Delete a pod and free its place. The pod still answers the requests that it has accepted."""
        self.pods.remove(pod)
        if pod.node is not None:
            pod.node.pods -= 1

    def last(self, now: float) -> Pod:
        """Return the pod that a ReplicaSet deletes first: without a node, then not ready, then newest.

        https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/controller_utils.go (`ActivePodsWithRanks`)
        """
        return max(self.pods, key=lambda pod: (pod.node is None, not pod.is_ready(now), pod.ready_at or 0.0))

    def settle(self, now: float) -> None:
        """Place waiting pods, keep warm pods, and remove a node that is no longer needed."""
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
        """Return a node on which a warm pod was evicted to make room."""
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
