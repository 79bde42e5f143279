"""The evaluator on Kubernetes' documented cases: the connections that each policy allows, in the page's words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.system.component.network_policies import NetworkPolicies, Peer

# The example of https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource
DB = """
podSelector: {matchLabels: {role: db}}
policyTypes: [Ingress, Egress]
ingress:
- from:
  - ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}
  - namespaceSelector: {matchLabels: {project: myproject}}
  - podSelector: {matchLabels: {role: frontend}}
  ports: [{protocol: TCP, port: 6379}]
egress:
- to: [{ipBlock: {cidr: 10.0.0.0/24}}]
  ports: [{protocol: TCP, port: 5978}]
"""
_ALICE, _CLIENT = "namespaceSelector: {matchLabels: {user: alice}}", "podSelector: {matchLabels: {role: client}}"
BOTH = f"{{podSelector: {{}}, ingress: [{{from: [{{{_ALICE}, {_CLIENT}}}]}}]}}"
EITHER = f"{{podSelector: {{}}, ingress: [{{from: [{{{_ALICE}}}, {{{_CLIENT}}}]}}]}}"
RANGE = """
podSelector: {matchLabels: {role: db}}
policyTypes: [Egress]
egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{protocol: TCP, port: 32000, endPort: 32768}]}]
"""
EXPRESSIONS = """
podSelector: {}
policyTypes: [Ingress]
ingress:
- from: [{namespaceSelector: {matchExpressions: [{key: namespace, operator: In, values: [frontend, backend]}]}}]
  ports: [{port: web}]
"""
NAMESPACES = {"mine": {"project": "myproject"}, "alices": {"user": "alice"}, "front": {"namespace": "frontend"}}


def pod(namespace: str = "default", address: str = "192.168.0.1", **labels: str) -> Peer:
    return Peer(address, namespace, labels, {"web": 8080})


def outside(address: str) -> Peer:
    return Peer(address)


DATABASE = pod(role="db")


@pytest.mark.parametrize(
    ("spec", "source", "destination", "port", "allowed"),
    [
        # "any pod in the default namespace with the label role=frontend"
        (DB, pod(role="frontend"), DATABASE, 6379, True),
        (DB, pod(role="frontend"), DATABASE, 6380, False),
        (DB, pod("other", role="frontend"), DATABASE, 6379, False),
        # "any pod in a namespace with the label project=myproject"
        (DB, pod("mine"), DATABASE, 6379, True),
        # "IP addresses in the ranges 172.17.0.0-172.17.0.255 and 172.17.2.0-172.17.255.255"
        (DB, outside("172.17.0.255"), DATABASE, 6379, True),
        (DB, outside("172.17.1.1"), DATABASE, 6379, False),
        (DB, outside("172.17.2.0"), DATABASE, 6379, True),
        # "allows connections from any pod with the label role=db to CIDR 10.0.0.0/24 on TCP port 5978"
        (DB, DATABASE, outside("10.0.0.9"), 5978, True),
        (DB, DATABASE, outside("10.0.1.9"), 5978, False),
        # It isolates only pods with role=db.
        (DB, pod(), pod(), 80, True),
        # A namespaceSelector and a podSelector in one `from` entry must both match; in two entries, either one.
        (BOTH, pod("alices", role="client"), pod(), 80, True),
        (BOTH, pod("alices"), pod(), 80, False),
        (BOTH, pod(role="client"), pod(), 80, False),
        (EITHER, pod("alices"), pod(), 80, True),
        (EITHER, pod(role="client"), pod(), 80, True),
        # A range of ports includes both of its ends.
        (RANGE, DATABASE, outside("10.0.0.1"), 32000, True),
        (RANGE, DATABASE, outside("10.0.0.1"), 32768, True),
        (RANGE, DATABASE, outside("10.0.0.1"), 32769, False),
        # Several namespaces by label, and a port by its name.
        (EXPRESSIONS, pod("front"), pod(), 8080, True),
        (EXPRESSIONS, pod("front"), pod(), 8081, False),
        (EXPRESSIONS, pod("mine"), pod(), 8080, False),
        # Default policies: deny all ingress, allow all ingress, deny all egress, allow all egress, deny both.
        ("{podSelector: {}, policyTypes: [Ingress]}", pod(), pod(), 80, False),
        ("{podSelector: {}, policyTypes: [Ingress]}", pod(), outside("1.1.1.1"), 80, True),
        ("{podSelector: {}, policyTypes: [Ingress], ingress: [{}]}", pod(), pod(), 80, True),
        ("{podSelector: {}, policyTypes: [Egress]}", pod(), pod("mine"), 80, False),
        ("{podSelector: {}, policyTypes: [Egress]}", pod("mine"), pod(), 80, True),
        ("{podSelector: {}, policyTypes: [Egress], egress: [{}]}", pod(), outside("1.1.1.1"), 80, True),
        ("{podSelector: {}, policyTypes: [Ingress, Egress]}", pod(), pod("mine"), 80, False),
        # Without policyTypes: Ingress always, Egress if there are egress rules.
        ("{podSelector: {}}", pod("mine"), pod(), 80, False),
        ("{podSelector: {}}", pod(), pod("mine"), 80, True),
    ],
)
def test_what_the_documented_policies_allow(spec: str, source: Peer, destination: Peer, port: int, allowed: bool) -> None:
    policy: dict[str, Any] = {"metadata": {"namespace": "default"}, "spec": yaml.safe_load(spec)}
    assert NetworkPolicies([policy], NAMESPACES).allow(source, destination, port) is allowed


def test_policies_add_up_and_no_rule_is_for_another_protocol() -> None:
    two = [
        {"metadata": {"namespace": "default"}, "spec": yaml.safe_load(text)}
        for text in (DB, "{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 53, protocol: UDP}]}]}")
    ]
    both = NetworkPolicies(two, NAMESPACES)
    assert both.allow(pod(role="frontend"), DATABASE, 6379) and both.allow(pod(), DATABASE, 53, "UDP")
    assert not both.allow(pod(), DATABASE, 53)
    assert both.entries(DATABASE, pod(role="frontend"), "Ingress") == 2
