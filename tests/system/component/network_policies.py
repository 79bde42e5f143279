"""Evaluates NetworkPolicies: which pod may open which connection.

https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Object = Mapping[str, Any]
Direction = Literal["Ingress", "Egress"]
MOST_PORTS = 24
"""Ports and protocols that AWS's agent stores for one address: `MAX_PORT_PROTOCOL` of aws-network-policy-agent."""


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, or, without a namespace, an address outside the cluster."""

    address: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    """Named container ports."""


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches. An empty selector matches everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
        matched = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[operator]
        if not matched:
            return False
    return True


@dataclass(frozen=True)
class NetworkPolicies:
    """The policies of a cluster, and the labels of its namespaces."""

    policies: Iterable[Object]
    namespaces: Mapping[str, Mapping[str, str]]

    def allow(self, source: Peer, destination: Peer, port: int, protocol: str = "TCP") -> bool:
        """Return whether the source's egress and the destination's ingress allow the connection."""
        return self._open("Egress", source, destination, port, protocol) and self._open(
            "Ingress", destination, source, port, protocol
        )

    def isolated(self, pod: Peer, direction: Direction) -> bool:
        """Return whether a policy selects the pod for this direction."""
        return any(True for _ in self._selecting(pod, direction))

    def entries(self, pod: Peer, other: Peer, direction: Direction) -> int:
        """Count the port entries for one address over all policies of the pod; a rule without ports counts as one."""
        rules = self._matching(pod, other, direction)
        return sum(len(rule.get("ports") or [None]) for rule in rules)

    def _selecting(self, pod: Peer, direction: Direction) -> Iterator[Object]:
        for policy in self.policies:
            spec = policy["spec"]
            types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
            near = policy["metadata"]["namespace"] == pod.namespace
            if near and direction in types and selects(spec.get("podSelector") or {}, pod.labels):
                yield policy

    def _matching(self, pod: Peer, other: Peer, direction: Direction) -> Iterator[Object]:
        rules, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
        for policy in self._selecting(pod, direction):
            for rule in policy["spec"].get(rules) or ():
                named = rule.get(peers)
                if not named or any(self._is(one, other, policy["metadata"]["namespace"]) for one in named):
                    yield rule

    def _open(self, direction: Direction, pod: Peer, other: Peer, port: int, protocol: str) -> bool:
        if not self.isolated(pod, direction):
            return True
        destination = pod if direction == "Ingress" else other
        return any(
            not rule.get("ports") or any(_covers(entry, port, protocol, destination) for entry in rule["ports"])
            for rule in self._matching(pod, other, direction)
        )

    def _is(self, peer: Object, other: Peer, namespace: str) -> bool:
        if "ipBlock" in peer:
            address = ipaddress.ip_address(other.address)
            excepted = [ipaddress.ip_network(one) for one in peer["ipBlock"].get("except") or ()]
            inside = address in ipaddress.ip_network(peer["ipBlock"]["cidr"])
            return inside and not any(address in one for one in excepted)
        if other.namespace is None:
            return False
        if (selector := peer.get("namespaceSelector")) is None:
            near = other.namespace == namespace
        else:
            labels = {"kubernetes.io/metadata.name": other.namespace, **self.namespaces.get(other.namespace, {})}
            near = selects(selector, labels)
        return near and selects(peer.get("podSelector") or {}, other.labels)


def _covers(entry: Object, port: int, protocol: str, destination: Peer) -> bool:
    if (entry.get("protocol") or "TCP") != protocol:
        return False
    first = entry.get("port")
    if first is None:
        return True
    if isinstance(first, str):
        return destination.ports.get(first) == port
    return int(first) <= port <= int(entry.get("endPort") or first)
