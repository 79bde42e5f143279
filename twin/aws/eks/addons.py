"""Add-ons. moto has none, so the rules that EKS enforces are here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from twin.aws import faults
from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Values, known
from twin.aws.eks import lookup, node_groups
from twin.aws.eks.recorded import RecordedHandler, now
from twin.aws.iam import trust

_NAMES = (
    "amazon-cloudwatch-observability",
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "aws-mountpoint-s3-csi-driver",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "kube-proxy",
    "metrics-server",
    "snapshot-controller",
    "vpc-cni",
)
_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")
_CONFLICTS = ("NONE", "OVERWRITE", "PRESERVE")
# Deployments: without a node to run on they stay DEGRADED and the create fails after its timeout of 20 minutes.
_NEEDS_NODES = frozenset(
    {
        "amazon-cloudwatch-observability",
        "aws-ebs-csi-driver",
        "aws-efs-csi-driver",
        "aws-fsx-csi-driver",
        "coredns",
        "metrics-server",
    }
)
_KUBE_PROXY_SKEW = 3  # minors that kube-proxy may be older than the API server


class Addon(RecordedHandler):
    token = "aws:eks/addon:Addon"
    kind = "addons"
    exists = "Addon already exists."
    inputs = frozenset(
        {
            "addonName",
            "addonVersion",
            "clusterName",
            "configurationValues",
            "podIdentityAssociations",
            "preserve",
            "resolveConflictsOnCreate",
            "resolveConflictsOnUpdate",
            "serviceAccountRoleArn",
            "tags",
        }
    )
    computed = frozenset({"arn", "createdAt", "modifiedAt"})
    replace_on = frozenset({"addonName", "clusterName"})

    def key(self, values: Values) -> tuple[str, ...]:
        return (values["addonName"],)

    def where(self, values: Values) -> str:
        return f"add-on {values['addonName']} of {values['clusterName']}"

    def rules(self, inputs: Values) -> Iterable[Problem]:
        name, version = known(inputs, "addonName"), known(inputs, "addonVersion")
        if name is not None and name not in _NAMES:
            yield Problem("addonName", f"EKS has no add-on {name!r}; known to the twin: {', '.join(_NAMES)}")
        if "addonVersion" not in inputs:
            yield Problem("addonVersion", "required: without it each preview takes the newest one of that day")
        if version is not None and not _VERSION.fullmatch(version):
            yield Problem("addonVersion", f"{version!r} is not like v1.2.3-eksbuild.4")
        for key, allowed in (("resolveConflictsOnCreate", _CONFLICTS[:2]), ("resolveConflictsOnUpdate", _CONFLICTS)):
            if known(inputs, key) not in (None, *allowed):
                yield Problem(key, f"{inputs[key]!r} is not one of {', '.join(allowed)}")
        values = known(inputs, "configurationValues")
        if values is not None and UNKNOWN not in values and not _is_json_object(values):
            yield Problem("configurationValues", "not a JSON object")
        if inputs.get("serviceAccountRoleArn") and inputs.get("podIdentityAssociations"):
            yield Problem("podIdentityAssociations", "an add-on has its role through IRSA or Pod Identity, not both")

    def check_references(self, clients: Clients, inputs: Values) -> None:
        name, where = inputs["addonName"], self.where(inputs)
        version = lookup.record(clients, inputs["clusterName"])["version"]
        if name == "kube-proxy":
            _check_kube_proxy(inputs["addonVersion"], version, where)
        if inputs.get("serviceAccountRoleArn"):
            trust.require_role(clients, inputs["serviceAccountRoleArn"], where)
        for association in inputs.get("podIdentityAssociations", []):
            trust.require_role(clients, association["roleArn"], where, service="pods.eks.amazonaws.com")
        if name in _NEEDS_NODES and not node_groups.has_plain_node(clients, inputs["clusterName"]):
            raise HandlerError(
                f"{where}: no node group without taints has a node that it could run on; it would stay DEGRADED until "
                "the create times out. Make it depend on the node group"
            )

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        id, outputs = super().create(clients, inputs)
        name = inputs["addonName"]
        if name in faults.listed(records.text(clients, faults.DEGRADED_ADD_ONS)):
            raise HalfCreated(
                id,
                self.outputs(inputs, {}),
                f"waiting for EKS Add-On ({id}) create: timeout while waiting for state to become 'ACTIVE' (last state: "
                "'DEGRADED', timeout: 20m0s)",
            )
        return id, outputs

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        # Of one that was half created, only the record has the computed values.
        return super().update(clients, id, {**(self.read(clients, id, old) or {}), **old}, new)

    def computed_values(self, clients: Clients, inputs: Values) -> Values:
        stamp = now()
        arn = clients.arn("eks", f"addon/{inputs['clusterName']}/{inputs['addonName']}")
        return {"arn": arn, "createdAt": stamp, "modifiedAt": stamp}


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _check_kube_proxy(addon_version: str, cluster_version: str, where: str) -> None:
    proxy, api_server = int(addon_version.split(".")[1]), int(cluster_version.split(".")[1])
    if not api_server - _KUBE_PROXY_SKEW <= proxy <= api_server:
        raise HandlerError(
            f"{where}: kube-proxy {addon_version} does not go with Kubernetes {cluster_version} "
            f"(1.{api_server - _KUBE_PROXY_SKEW} to {cluster_version} do)"
        )
