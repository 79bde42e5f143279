"""The security group that EKS itself makes for a cluster and its managed nodes. moto makes none."""

from __future__ import annotations

from twin.aws.base.clients import Clients
from twin.aws.base.lookup import gone_is_fine


def create(clients: Clients, cluster: str, vpc_id: str) -> str:
    """Make the group as EKS does: everything within it, all egress, the cluster's ownership tag; return its id."""
    ec2 = clients("ec2")
    tags = {"Name": f"eks-cluster-sg-{cluster}", f"kubernetes.io/cluster/{cluster}": "owned"}
    id: str = ec2.create_security_group(
        GroupName=f"eks-cluster-sg-{cluster}",
        Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
        VpcId=vpc_id,
    )["GroupId"]
    ec2.create_tags(Resources=[id], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])
    ec2.authorize_security_group_ingress(
        GroupId=id, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": id}]}]
    )
    return id


def delete(clients: Clients, id: str) -> None:
    """Remove the group; EKS does it with the cluster."""
    with gone_is_fine():
        clients("ec2").delete_security_group(GroupId=id)
