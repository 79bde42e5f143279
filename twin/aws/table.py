"""Table of the fake account's types and functions: record-only types (rows.py) and those with behavior."""

from __future__ import annotations

from twin.aws import invokes, logs
from twin.aws.addons import Addon
from twin.aws.base.errors import UnsupportedType
from twin.aws.base.handler import Handler, Invoke
from twin.aws.ec2 import launch_templates, network, security_groups
from twin.aws.eks import auto_scaling, clusters, node_groups
from twin.aws.iam import oidc, policies, roles
from twin.aws.kms import keys
from twin.aws.recorded import Recorded
from twin.aws.rows import ADDON, ROWS
from twin.aws.s3 import bucket, settings
from twin.aws.sqs import queue

__all__ = ["HANDLERS", "INVOKES", "handler", "invoke"]

_CLASSES: tuple[type[Handler], ...] = (
    auto_scaling.Tag,
    bucket.Bucket,
    clusters.Cluster,
    network.VpcEndpoint,
    keys.Alias,
    keys.Key,
    launch_templates.LaunchTemplate,
    settings.BucketLifecycle,
    logs.LogGroup,
    network.Eip,
    network.NatGateway,
    node_groups.NodeGroup,
    oidc.OpenIdConnectProvider,
    policies.Policy,
    policies.RolePolicy,
    policies.RolePolicyAttachment,
    queue.Queue,
    queue.QueuePolicy,
    roles.InstanceProfile,
    roles.Role,
    roles.ServiceLinkedRole,
    network.Route,
    network.RouteTable,
    network.RouteTableAssociation,
    security_groups.SecurityGroupEgressRule,
    security_groups.SecurityGroupIngressRule,
    security_groups.DefaultSecurityGroup,
    security_groups.SecurityGroup,
    settings.BucketEncryption,
    settings.BucketLogging,
    settings.BucketOwnershipControls,
    settings.BucketPolicy,
    settings.BucketPublicAccessBlock,
    settings.BucketVersioning,
    network.InternetGateway,
    network.Subnet,
    network.Vpc,
)

INVOKES: dict[str, Invoke] = invokes.INVOKES
HANDLERS: dict[str, Handler] = {
    **{cls.token: cls() for cls in _CLASSES},
    **{row.token: Recorded(row) for row in ROWS},
    ADDON.token: Addon(ADDON),
}


def handler(token: str) -> Handler:
    """Return the handler of a type token. Raises UnsupportedType, which names the file to extend."""
    try:
        return HANDLERS[token]
    except KeyError:
        raise UnsupportedType(
            f"the twin has no handler for resource type {token}: write a row in twin/aws/rows.py"
        ) from None


def invoke(token: str) -> Invoke:
    """Return the implementation of a function token. Raises UnsupportedType, which names the file to extend."""
    try:
        return INVOKES[token]
    except KeyError:
        raise UnsupportedType(
            f"the twin has no implementation of function {token}: write one in twin/aws/invokes.py"
        ) from None
