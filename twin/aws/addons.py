"""EKS add-ons: some need nodes, and a fault can leave one degraded."""

from __future__ import annotations

from twin.aws import faults
from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError
from twin.aws.base.handler import Values
from twin.aws.eks import node_groups
from twin.aws.recorded import Recorded

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
"""These run as Deployments and stay DEGRADED without a node: https://github.com/pulumi/pulumi-eks/issues/1819."""


class Addon(Recorded):
    """An add-on; moto describes its record (moto_eks.py)."""

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name, cluster = inputs["addonName"], inputs["clusterName"]
        if name in _NEEDS_NODES and not node_groups.has_plain_node(clients, cluster):
            raise HandlerError(
                f"add-on {name} of {cluster}: no node group without taints has a node that it could run on; it would stay "
                "DEGRADED until the create times out. Make it depend on the node group"
            )
        id, outputs = super().create(clients, inputs)
        if name in faults.listed(records.text(clients, faults.DEGRADED_ADD_ONS)):
            raise HalfCreated(
                id,
                self.outputs(inputs, {}),
                f"waiting for EKS Add-On ({id}) create: timeout while waiting for state to become 'ACTIVE' (last state: "
                "'DEGRADED', timeout: 20m0s)",
            )
        return id, outputs

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        # For a half-created add-on, only the record has the computed values.
        return super().update(clients, id, {**(self.read(clients, id, old) or {}), **old}, new)
