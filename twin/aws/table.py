"""The table of types and invokes that the fake account has. Add a handler here when the program uses a new type."""

from __future__ import annotations

from twin.aws import alarms, autoscaling, codebuild, costs, domains, events, existing, invokes, logs
from twin.aws.base.errors import UnsupportedType
from twin.aws.base.handler import Handler, Invoke
from twin.aws.ec2 import (
    endpoints,
    flow_logs,
    launch_templates,
    nat,
    routes,
    security_group_rules,
    security_groups,
    vpc,
)
from twin.aws.eks import access, addons, clusters, node_groups
from twin.aws.fsx import association, file_system
from twin.aws.iam import oidc, policies, roles
from twin.aws.kms import keys
from twin.aws.s3 import bucket, lifecycle, settings
from twin.aws.sqs import queue
from twin.aws.sqs import settings as queue_settings

__all__ = ["HANDLERS", "INVOKES", "handler", "invoke"]

_CLASSES: tuple[type[Handler], ...] = (
    access.AccessEntry,
    access.AccessPolicyAssociation,
    access.PodIdentityAssociation,
    addons.Addon,
    alarms.MetricAlarm,
    association.DataRepositoryAssociation,
    autoscaling.Tag,
    bucket.Bucket,
    clusters.Cluster,
    codebuild.Project,
    codebuild.Webhook,
    costs.AnomalyMonitor,
    costs.AnomalySubscription,
    costs.Budget,
    domains.Certificate,
    domains.CertificateValidation,
    domains.Record,
    endpoints.VpcEndpoint,
    events.EventRule,
    events.EventTarget,
    file_system.LustreFileSystem,
    flow_logs.FlowLog,
    keys.Alias,
    keys.Key,
    launch_templates.LaunchTemplate,
    lifecycle.BucketLifecycle,
    logs.LogGroup,
    nat.Eip,
    nat.NatGateway,
    node_groups.NodeGroup,
    oidc.OpenIdConnectProvider,
    policies.Policy,
    policies.RolePolicy,
    policies.RolePolicyAttachment,
    queue.Queue,
    queue_settings.QueuePolicy,
    queue_settings.RedriveAllowPolicy,
    roles.InstanceProfile,
    roles.Role,
    roles.ServiceLinkedRole,
    routes.Route,
    routes.RouteTable,
    routes.RouteTableAssociation,
    security_group_rules.SecurityGroupEgressRule,
    security_group_rules.SecurityGroupIngressRule,
    security_groups.DefaultSecurityGroup,
    security_groups.SecurityGroup,
    settings.BucketEncryption,
    settings.BucketLogging,
    settings.BucketOwnershipControls,
    settings.BucketPolicy,
    settings.BucketPublicAccessBlock,
    settings.BucketVersioning,
    vpc.InternetGateway,
    vpc.Subnet,
    vpc.Vpc,
)

INVOKES: dict[str, Invoke] = {**invokes.INVOKES, **existing.INVOKES, **domains.INVOKES}
HANDLERS: dict[str, Handler] = {cls.token: cls() for cls in _CLASSES}


def handler(token: str) -> Handler:
    """Return the handler of a type token; UnsupportedType names the file to extend."""
    try:
        return HANDLERS[token]
    except KeyError:
        raise UnsupportedType(
            f"the twin has no handler for resource type {token}: write one in twin/aws/ and list it in twin/aws/table.py"
        ) from None


def invoke(token: str) -> Invoke:
    """Return the implementation of a function token; UnsupportedType names the file to extend."""
    try:
        return INVOKES[token]
    except KeyError:
        raise UnsupportedType(
            f"the twin has no implementation of function {token}: write one in twin/aws/invokes.py"
        ) from None
