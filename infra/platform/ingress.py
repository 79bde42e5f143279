"""NetworkPolicies for ingress to the pods of a platform namespace, from the table of connections (`spec.reach`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pulumi_kubernetes as k8s

from spec.reach import API_SERVER, BALANCER, NAME_LABEL, PODS, Connection, connections

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"

Spec = dict[str, Any]


def policies(namespace: str, vpc_cidrs: Iterable[str]) -> dict[str, k8s.networking.v1.NetworkPolicySpecArgsDict]:
    """Return the policies of a namespace by name: `none` denies ingress to all its pods, and each other one allows a
    workload.

    The kubelet's probes pass without a rule. Pods behind a load balancer stay open, because their clients may have any
    address. The load balancer's security group and Envoy's own policies restrict them.
    """
    cidrs = list(vpc_cidrs)
    workloads = {name: pods for name, pods in PODS.items() if pods.namespace == namespace}
    public = [workloads[row.destination].labels[NAME_LABEL] for row in connections() if _is_public(row, workloads)]
    unless_public = {"key": NAME_LABEL, "operator": "NotIn", "values": sorted(set(public))}
    found = {"none": _spec({"match_expressions": [unless_public]} if public else {}, [])}
    for name, pods in workloads.items():
        rules = list(_rules(name, cidrs))
        label = pods.labels[NAME_LABEL]
        if rules and label not in public:
            found[label] = _spec({"match_labels": dict(pods.labels)}, rules)
    return found


def _is_public(row: Connection, workloads: Iterable[str]) -> bool:
    return row.source == BALANCER and row.destination in workloads


def _rules(destination: str, cidrs: list[str]) -> Iterator[Spec]:
    for row in connections():
        if row.destination != destination:
            continue
        ports = [{"port": port, "protocol": protocol} for port in row.ports for protocol in row.protocols]
        if row.source in PODS:
            pods = PODS[row.source]
            near = {"match_labels": {_NAMESPACE_LABEL: pods.namespace}}
            peers: list[Spec] = [{"namespace_selector": near, "pod_selector": {"match_labels": dict(pods.labels)}}]
        elif row.source == API_SERVER:
            # Its interfaces have VPC addresses that are not known in advance.
            peers = [{"ip_block": {"cidr": cidr}} for cidr in cidrs]
        else:
            continue
        yield {"from_": peers, "ports": ports}


def _spec(selector: Spec, rules: list[Spec]) -> Any:
    return {"pod_selector": selector, "policy_types": ["Ingress"], "ingress": rules}
