"""The AWS calls of each resource's create, read, update and delete, with IAM's conditions for each.

In addition to the operations of pulumi-aws, these are their dependent actions: calls that a service makes with its caller's
permissions. Each page of https://docs.aws.amazon.com/service-authorization/latest/reference/ lists them ("Dependent
actions"). EKS's are in https://docs.aws.amazon.com/eks/latest/userguide/security-iam-id-based-policies.html and in the pages
on service-linked and on pod identity roles. Dependent actions that our stacks never cause are omitted: the ECS permissions
of CreateFlowLogs, parameters in an AMI id (ssm:GetParameters), keys of several regions and billing views
(iam:CreateServiceLinkedRole), and backups of a file system that is scratch or has `skipFinalBackup`. kms:PutKeyPolicy is
part of kms:CreateKey (https://docs.aws.amazon.com/kms/latest/developerguide/create-keys.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.system.component.engine.recording import Recording
from twin.aws.iam.authorization import Call

ACCOUNT, REGION = "123456789012", "us-west-2"
_CLUSTER = "eks/cluster:Cluster"
# Two of them are needed to create a file system, and to empty a bucket.
_READS = re.compile(r"\w+:(Describe|List|Get|BatchGet|View)(?!SecurityGroupsForVpc|BucketVersions|Connection)")
_ID = re.compile(r"(?:.*/)?([^/]+)$")
# A changed tag is sent without the others.
_ANOTHER_OWNER = {"aws:RequestTag/owner": "somebody-else"}


@dataclass(frozen=True)
class Made:
    """A resource of a stack: its type without `aws:`, the id in other resources' inputs, and its inputs."""

    type: str
    name: str
    id: str
    inputs: Mapping[str, Any]

    @property
    def tags(self) -> Mapping[str, str]:
        return self.inputs.get("tags") or {}


class Stack:
    """All AWS resources of a stack, found by references to them.

    `strangers`: ids of existing resources without our tags.
    """

    def __init__(self, resources: Iterable[Made], strangers: Collection[str] = ()) -> None:
        self.resources = tuple(resources)
        self._strangers = frozenset(strangers)
        self._by_id = {one.id: one for one in self.resources}
        self._roles = {one.inputs["name"]: one for one in self.resources if one.type == "iam/role:Role"}

    def tags(self, id: str) -> Mapping[str, str]:
        """Return the tags of the resource with this id."""
        return {} if id in self._strangers else self._by_id[id].tags

    def group(self, id: str) -> Mapping[str, str]:
        """Return the tags of a security group; if it is no resource of the stack, EKS created it for the cluster."""
        return self.tags(id) if id in self._by_id else self.clusters_group()

    @property
    def cluster(self) -> str:
        """Return the name of the node groups' cluster."""
        (name,) = {one.inputs["clusterName"] for one in self.resources if one.type == "eks/nodeGroup:NodeGroup"}
        return str(name)

    def clusters_group(self) -> Mapping[str, str]:
        """Return the tags of the group that EKS creates:
        https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html.
        """
        name = self.cluster
        return {
            "Name": f"eks-cluster-sg-{name}-1234567890",
            f"kubernetes.io/cluster/{name}": "owned",
            "aws:eks:cluster-name": name,
        }

    @property
    def name(self) -> str:
        """Return the stack's name; here it is also the environment."""
        (name,) = {made.inputs["bucket"][14:-23] for made in self.resources if made.name == "models-bucket"}
        return str(name)

    def alias(self, key_id: str) -> Mapping[str, str]:
        """Return the condition key of a key's alias."""
        (name,) = {
            made.inputs["name"]
            for made in self.resources
            if made.type == "kms/alias:Alias" and _key(made.inputs["targetKeyId"]) == _key(key_id)
        }
        return {"kms:ResourceAliases": name}

    def role_context(self, name: str) -> Mapping[str, str]:
        """Return the condition keys of calls on a role of the stack."""
        inputs = self._roles[name].inputs
        return {**carried(self.role(name)), "iam:PermissionsBoundary": inputs["permissionsBoundary"]}

    def role_arn(self, name: str) -> str:
        return _iam(f"role{self._roles[name].inputs.get('path', '/')}{name}")

    def role(self, name: str) -> Mapping[str, str]:
        """Return the tags of a role of the stack, by the role's name."""
        return self._roles[name].tags


def calls(stack: Stack) -> Iterator[Call]:
    """Yield every call of the stack's life, and the program's own requests. KeyError for a type without a rule."""
    yield from (Call(action, "*", by="the program") for action in PROGRAM)
    for made in stack.resources:
        for call in _RULES[made.type](stack, made):
            yield replace(call, by=f"{made.type} {made.name}")
    yield from tunnel(stack=stack.name)


def of_recording(recording: Recording, strangers: Collection[str] = ()) -> Stack:
    """Return the stack that a run of the program has created."""
    made = [item for item in recording.registrations if item.custom and item.type.startswith("aws:")]
    return Stack((Made(one.type.removeprefix("aws:"), one.name, one.id, one.checked) for one in made), strangers)


def reads(stack: Stack) -> Iterator[Call]:
    """Yield the calls of a preview with a refresh."""
    yield from (call for call in calls(stack) if _READS.match(call.action))


def tunnel(
    document: str = "AWS-StartPortForwardingSessionToRemoteHost",
    node: Mapping[str, str] | None = None,
    stack: str = "prod",
) -> Iterator[Call]:
    """Yield the calls of `aws ssm start-session` and its plugin; `node` has the instance's tags."""
    tags = {"project": "triton-eks", "environment": stack} if node is None else node
    checked = {"ssm:SessionDocumentAccessCheck": "true"}
    context = {**{f"ssm:resourceTag/{key}": value for key, value in tags.items()}, **checked}
    yield Call("ssm:StartSession", _ec2("instance"), context, by="the tunnel")
    yield Call("ssm:StartSession", f"arn:aws:ssm:{REGION}::document/{document}", checked, by="the tunnel")
    session = _arn("ssm", f"session/deploy-{stack}-1-0123456789abcdef0")
    yield from (Call(f"ssm:{action}Session", session, by="the tunnel") for action in ("Resume", "Terminate"))


def promotion(stack: Stack) -> Iterator[Call]:
    """Yield the calls of `modelctl promote` in a deployment: read a release from one bucket and write it to the next."""
    before = {"staging": "dev", "prod": "staging"}.get(stack.name)
    if before is not None:
        bucket, tags = (
            f"arn:aws:s3:::triton-models-{before}-{ACCOUNT}-{REGION}",
            {"project": "triton-eks", "environment": before},
        )
        yield from _on("s3:ListBucket", bucket)
        yield from _on("s3:GetObject", f"{bucket}/releases/x")
        yield from _on("kms:Decrypt", _key("before"), carried(tags), {"kms:ViaService": f"s3.{REGION}.amazonaws.com"})
    for made in stack.resources:
        if made.type == "s3/bucket:Bucket" and made.inputs["bucket"].startswith("triton-models-"):
            bucket = f"arn:aws:s3:::{made.inputs['bucket']}"
            yield from _on("s3:ListBucket", bucket)
            yield from _on("s3:GetObject s3:PutObject s3:AbortMultipartUpload", f"{bucket}/releases/x")
        if made.type == "kms/key:Key" and made.name == "models-encryption-key":
            yield from _on("kms:Decrypt kms:GenerateDataKey", _key(made.id), carried(made.tags), stack.alias(made.id))


PROGRAM = ("ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypeOfferings", "sts:GetCallerIdentity")


def requested(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the condition keys of a call's tags."""
    return {f"aws:RequestTag/{key}": value for key, value in tags.items()}


def carried(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the condition keys of a resource's tags."""
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def _on(actions: str, resource: str, *contexts: Mapping[str, str]) -> Iterator[Call]:
    """Yield calls of several actions on one resource, in the same context."""
    for action in actions.split():
        yield Call(action, resource, {key: value for one in contexts for key, value in one.items()})


def _arn(service: str, resource: str, *, region: str = REGION, account: str = ACCOUNT) -> str:
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def _iam(resource: str) -> str:
    return _arn("iam", resource, region="")


def _ec2(kind: str, id: str = "new") -> str:
    return _arn("ec2", f"{kind}/{_ID.fullmatch(id)[1]}")  # type: ignore[index]  # it matches everything


_IN_EC2 = {
    "allocationId": "elastic-ip",
    "routeTableId": "route-table",
    "routeTableIds": "route-table",
    "securityGroupId": "security-group",
    "securityGroupIds": "security-group",
    "subnetId": "subnet",
    "subnetIds": "subnet",
    "vpcId": "vpc",
}
"""Inputs with the parents of a resource."""


def _named_by(stack: Stack, made: Made, keys: Sequence[str] = tuple(_IN_EC2)) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield ARN and tags of each EC2 resource that a resource's inputs name."""
    for key in keys:
        found = made.inputs.get(key) or []
        for id in [found] if isinstance(found, str) else found:
            kind = _IN_EC2[key]
            yield _ec2(kind, id), carried(stack.group(id) if kind == "security-group" else stack.tags(id))


def _made_in_ec2(
    kind: str, create: str, change: str, describe: str, stack: Stack, made: Made, names: Sequence[str] = tuple(_IN_EC2)
) -> Iterator[Call]:
    """Yield create with tags, change and delete by the resource's own tags, and read."""
    given, own = requested(made.tags), carried(made.tags)
    yield from _on(f"ec2:{create}", _ec2(kind), given)
    yield from _on("ec2:CreateTags", _ec2(kind), given, {"ec2:CreateAction": create})
    for resource, tags in _named_by(stack, made, names):
        yield from _on(f"ec2:{create}", resource, given, tags)
    yield from _on(" ".join(f"ec2:{one}" for one in change.split()), _ec2(kind), own)
    yield from _on("ec2:CreateTags ec2:DeleteTags", _ec2(kind), own, _ANOTHER_OWNER)
    yield from _on(" ".join(f"ec2:{one}" for one in describe.split()), "*")


def _vpc(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _made_in_ec2("vpc", "CreateVpc", "ModifyVpcAttribute DeleteVpc", "DescribeVpcs", stack, made)
    yield from _on("ec2:DescribeVpcAttribute", _ec2("vpc"))


def _internet_gateway(stack: Stack, made: Made) -> Iterator[Call]:
    change, attach = "DeleteInternetGateway", "ec2:AttachInternetGateway ec2:DetachInternetGateway"
    describe = "DescribeInternetGateways"
    yield from _made_in_ec2("internet-gateway", "CreateInternetGateway", change, describe, stack, made, names=())
    for resource, tags in [(_ec2("internet-gateway"), carried(made.tags)), *_named_by(stack, made)]:
        yield from _on(attach, resource, tags)


def _route(stack: Stack, made: Made) -> Iterator[Call]:
    for resource, tags in _named_by(stack, made, ["routeTableId"]):
        yield from _on("ec2:CreateRoute ec2:ReplaceRoute ec2:DeleteRoute", resource, tags)
    yield from _on("ec2:DescribeRouteTables", "*")


def _route_table_association(stack: Stack, made: Made) -> Iterator[Call]:
    for resource, tags in _named_by(stack, made):
        yield from _on("ec2:AssociateRouteTable ec2:DisassociateRouteTable", resource, tags)


def _vpc_endpoint(stack: Stack, made: Made) -> Iterator[Call]:
    change = "ModifyVpcEndpoint DeleteVpcEndpoints"
    yield from _made_in_ec2(
        "vpc-endpoint", "CreateVpcEndpoint", change, "DescribeVpcEndpoints DescribePrefixLists", stack, made
    )
    yield from _on("ec2:DescribeSecurityGroups ec2:DescribeSubnets ec2:DescribeVpcs", "*")
    for resource, tags in _named_by(stack, made, ["routeTableIds", "securityGroupIds", "subnetIds"]):
        yield from _on("ec2:ModifyVpcEndpoint", resource, tags)
    if made.inputs.get("privateDnsEnabled"):
        yield from _on("route53:AssociateVPCWithHostedZone", "arn:aws:route53:::hostedzone/Z1234567890")


def _security_group(stack: Stack, made: Made) -> Iterator[Call]:
    # A new group allows all egress; the provider removes the rule.
    change, describe = "RevokeSecurityGroupEgress DeleteSecurityGroup", "DescribeSecurityGroups"
    yield from _made_in_ec2("security-group", "CreateSecurityGroup", change, describe, stack, made)


def _default_security_group(stack: Stack, made: Made) -> Iterator[Call]:
    group = _ec2("security-group", "sg-default")
    yield from _on("ec2:RevokeSecurityGroupIngress ec2:RevokeSecurityGroupEgress", group)
    yield from _on("ec2:CreateTags", group, requested(made.tags))
    yield from _on("ec2:CreateTags ec2:DeleteTags", group, carried(made.tags), _ANOTHER_OWNER)


def _rule(way: str, stack: Stack, made: Made) -> Iterator[Call]:
    describe, in_group = "DescribeSecurityGroupRules", ["securityGroupId"]
    # A rule is deleted and changed with the permissions for its group.
    yield from _made_in_ec2("security-group-rule", f"AuthorizeSecurityGroup{way}", "", describe, stack, made, in_group)
    yield from _on("ec2:ModifySecurityGroupRules", _ec2("security-group-rule"), carried(made.tags))
    for resource, tags in _named_by(stack, made, in_group):
        yield from _on(f"ec2:RevokeSecurityGroup{way} ec2:ModifySecurityGroupRules", resource, tags)


def _flow_log(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _made_in_ec2("vpc-flow-log", "CreateFlowLogs", "DeleteFlowLogs", "DescribeFlowLogs", stack, made)
    yield _pass(made.inputs["iamRoleArn"], "vpc-flow-logs.amazonaws.com")


def _auto_scaling_tag(stack: Stack, made: Made) -> Iterator[Call]:
    group = _arn("autoscaling", "autoScalingGroup:11111111-2222:autoScalingGroupName/eks-nodes-pool-g5-group-1111")
    tags = {"aws:RequestTag/k8s.io/x": "y", "aws:ResourceTag/eks:cluster-name": stack.cluster}
    yield from _on("autoscaling:CreateOrUpdateTags autoscaling:DeleteTags", group, tags)
    yield from _on("autoscaling:DescribeTags", "*")


def _pass(role_arn: str, service: str) -> Call:
    return Call("iam:PassRole", role_arn, {"iam:PassedToService": service})


def _own_role(service: str, name: str) -> Call:
    """Return the call by which a service creates its role in the account, with its first user's permissions."""
    return Call(
        "iam:CreateServiceLinkedRole", _iam(f"role/aws-service-role/{service}/{name}"), {"iam:AWSServiceName": service}
    )


def _uses_key(stack: Stack, key_arn: str, service: str) -> Iterator[Call]:
    alias = stack.alias(key_arn)
    own = {**carried(stack.tags(key_arn.partition(":key/")[2])), **alias}
    yield from _on("kms:DescribeKey kms:CreateGrant", _key(key_arn), own)
    # For five minutes KMS applies neither; the alias may apply before or after the tags.
    for known in ({}, alias):
        yield from _on("kms:CreateGrant", _key(key_arn), known, {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"})


def _key(id: str) -> str:
    return _arn("kms", f"key/{_ID.fullmatch(id)[1]}")  # type: ignore[index]  # it matches everything


def _eks(kind: str, made: Made) -> str:
    return _arn("eks", f"{kind}/{made.inputs.get('clusterName') or made.inputs['name']}/new")


def _cluster_of(made: Made) -> str:
    return _arn("eks", f"cluster/{made.inputs.get('clusterName') or made.inputs['name']}")


def _in_a_cluster(kind: str, create: str, change: str, describe: str, stack: Stack, made: Made) -> Iterator[Call]:
    given = requested(made.tags)
    yield from _on(f"eks:{create}", _cluster_of(made), given)
    yield from _on("eks:TagResource", _eks(kind, made), given)
    yield from _on(" ".join(f"eks:{one}" for one in change.split()), _eks(kind, made), carried(made.tags))
    yield from _on(" ".join(f"eks:{one}" for one in describe.split()), _eks(kind, made))


def _cluster(stack: Stack, made: Made) -> Iterator[Call]:
    own, change = _cluster_of(made), "eks:UpdateClusterConfig eks:UpdateClusterVersion eks:DeleteCluster eks:UntagResource"
    # CreateCluster takes no resource.
    yield from _on("eks:CreateCluster", "*", requested(made.tags))
    yield from _on("eks:TagResource", own, requested(made.tags))
    yield from _on(f"{change} eks:DescribeCluster eks:DescribeUpdate", own, carried(made.tags))
    yield _pass(made.inputs["roleArn"], "eks.amazonaws.com")
    yield _own_role("eks.amazonaws.com", "AWSServiceRoleForAmazonEKS")
    yield from _uses_key(stack, made.inputs["encryptionConfig"]["provider"]["keyArn"], "eks")
    yield from _on("ec2:DescribeSubnets ec2:DescribeSecurityGroups ec2:DescribeVpcs", "*")
    yield from _on("iam:GetRole iam:ListAttachedRolePolicies", made.inputs["roleArn"])


def _node_group(stack: Stack, made: Made) -> Iterator[Call]:
    change = "UpdateNodegroupConfig UpdateNodegroupVersion DeleteNodegroup UntagResource"
    yield from _in_a_cluster("nodegroup", "CreateNodegroup", change, "DescribeNodegroup", stack, made)
    role, template = made.inputs["nodeRoleArn"], made.inputs["launchTemplate"]["id"]
    yield _pass(role, "eks.amazonaws.com")
    # With a launch template EKS tests an instance with its caller's permissions:
    # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html.
    yield _pass(role, "ec2.amazonaws.com")
    yield from _on("iam:GetRole iam:ListAttachedRolePolicies", role)
    by_template = {"ec2:LaunchTemplate": _ec2("launch-template", template)}
    yield from _on("ec2:RunInstances", _ec2("launch-template", template), carried(stack.tags(template)), by_template)
    for kind in ("instance", "network-interface", "volume"):
        yield from _on("ec2:RunInstances", _ec2(kind), by_template)
        yield from _on("ec2:CreateTags", _ec2(kind), {"ec2:CreateAction": "RunInstances"}, requested(made.tags))
    for subnet in made.inputs["subnetIds"]:
        yield from _on("ec2:RunInstances", _ec2("subnet", subnet), carried(stack.tags(subnet)), by_template)
    yield from _on("ec2:RunInstances", _ec2("security-group", "sg-eks"), carried(stack.clusters_group()), by_template)
    yield from _on("ec2:RunInstances", f"arn:aws:ec2:{REGION}::image/ami-0123456789abcdef0", by_template)
    yield _own_role("eks-nodegroup.amazonaws.com", "AWSServiceRoleForAmazonEKSNodegroup")
    yield _own_role("autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling")


def _addon(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _in_a_cluster("addon", "CreateAddon", "UpdateAddon DeleteAddon UntagResource", "DescribeAddon", stack, made)
    role = made.inputs.get("serviceAccountRoleArn")
    if role is not None:
        yield _pass(role, "eks.amazonaws.com")
    for one in made.inputs.get("podIdentityAssociations") or ():
        yield from _on("eks:CreatePodIdentityAssociation", _cluster_of(made))
        yield from _role_of_a_pod(one["roleArn"])


def _role_of_a_pod(role_arn: str) -> Iterator[Call]:
    yield _pass(role_arn, "pods.eks.amazonaws.com")
    yield from _on("iam:GetRole", role_arn)


def _pod_identity(stack: Stack, made: Made) -> Iterator[Call]:
    kind, change = "podidentityassociation", "UpdatePodIdentityAssociation DeletePodIdentityAssociation UntagResource"
    yield from _in_a_cluster(kind, "CreatePodIdentityAssociation", change, "DescribePodIdentityAssociation", stack, made)
    yield from _role_of_a_pod(made.inputs["roleArn"])


def _access_policy(stack: Stack, made: Made) -> Iterator[Call]:
    actions = "eks:AssociateAccessPolicy eks:DisassociateAccessPolicy eks:ListAssociatedAccessPolicies"
    yield from _on(actions, _eks("access-entry", made))


def _role(stack: Stack, made: Made) -> Iterator[Call]:
    own, bounded = stack.role_arn(made.inputs["name"]), {"iam:PermissionsBoundary": made.inputs["permissionsBoundary"]}
    yield from _on("iam:CreateRole", own, requested(made.tags), bounded)
    yield from _on("iam:TagRole", own, requested(made.tags))
    yield from _on("iam:PutRolePermissionsBoundary", own, carried(made.tags), bounded)
    change = "iam:UpdateAssumeRolePolicy iam:UpdateRole iam:UpdateRoleDescription iam:DeleteRole iam:UntagRole iam:TagRole"
    read = "iam:GetRole iam:ListRolePolicies iam:ListAttachedRolePolicies iam:ListInstanceProfilesForRole"
    yield from _on(f"{change} {read}", own, carried(made.tags), _ANOTHER_OWNER)


def _of_a_role(actions: str, stack: Stack, made: Made) -> Iterator[Call]:
    name, policy = made.inputs["role"], made.inputs.get("policyArn")
    context = stack.role_context(name)
    yield from _on(actions, stack.role_arn(name), context if policy is None else {**context, "iam:PolicyARN": policy})


def _instance_profile(stack: Stack, made: Made) -> Iterator[Call]:
    own, role = _iam(f"instance-profile/{made.inputs['name']}"), made.inputs["role"]
    yield from _on("iam:CreateInstanceProfile iam:TagInstanceProfile", own, requested(made.tags))
    change = "iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile"
    yield from _on(f"{change} iam:UntagInstanceProfile iam:GetInstanceProfile", own, carried(made.tags))
    yield from _on("iam:TagInstanceProfile", own, carried(made.tags), _ANOTHER_OWNER)
    yield _pass(stack.role_arn(role), "ec2.amazonaws.com")


def _oidc_provider(stack: Stack, made: Made) -> Iterator[Call]:
    own = _iam(f"oidc-provider/oidc.eks.{REGION}.amazonaws.com/id/0123456789ABCDEF")
    yield from _on("iam:CreateOpenIDConnectProvider", own, requested(made.tags))
    if made.tags:
        yield from _on("iam:TagOpenIDConnectProvider", own, requested(made.tags))
    change = "iam:DeleteOpenIDConnectProvider iam:UpdateOpenIDConnectProviderThumbprint iam:GetOpenIDConnectProvider"
    clients = "iam:AddClientIDToOpenIDConnectProvider iam:RemoveClientIDFromOpenIDConnectProvider"
    yield from _on(f"{change} {clients} iam:UntagOpenIDConnectProvider", own, carried(made.tags))
    yield from _on("iam:TagOpenIDConnectProvider", own, carried(made.tags), _ANOTHER_OWNER)


def _kms_key(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _on("kms:CreateKey", "*", requested(made.tags))
    yield from _on("kms:TagResource", _key("new"), requested(made.tags))
    # At once, when KMS applies neither its tags nor its alias.
    yield from _on("kms:EnableKeyRotation", _key("new"))
    # Its alias is deleted first.
    yield from _on("kms:ScheduleKeyDeletion", _key("new"), carried(made.tags))
    own = {**carried(made.tags), **stack.alias(made.id)}
    change = "kms:EnableKeyRotation kms:PutKeyPolicy kms:UpdateKeyDescription kms:UntagResource"
    read = "kms:DescribeKey kms:GetKeyPolicy kms:GetKeyRotationStatus kms:ListResourceTags"
    yield from _on(f"{change} kms:TagResource {read}", _key("new"), own)


def _alias(stack: Stack, made: Made) -> Iterator[Call]:
    key = made.inputs["targetKeyId"]
    for resource, tags in (
        (_arn("kms", made.inputs["name"]), {}),
        (_key(key), {**carried(stack.tags(key)), **stack.alias(key)}),
    ):
        yield from _on("kms:CreateAlias kms:UpdateAlias kms:DeleteAlias", resource, tags)
    yield from _on("kms:CreateAlias", _key(key))
    yield from _on("kms:ListAliases", "*")


def _of_a_bucket(actions: str, stack: Stack, made: Made) -> Iterator[Call]:
    yield from _on(
        " ".join(f"s3:{one}" for one in actions.split()), f"arn:aws:s3:::{made.inputs['bucket']}", requested(made.tags)
    )


def _bucket(stack: Stack, made: Made) -> Iterator[Call]:
    change = "CreateBucket DeleteBucket PutBucketTagging TagResource UntagResource ListBucketVersions"
    read = (
        "ListBucket GetAccelerateConfiguration GetBucketAcl GetBucketCORS GetBucketLogging GetBucketObjectLockConfiguration "
        "GetBucketPolicy GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite "
        "GetEncryptionConfiguration GetLifecycleConfiguration GetReplicationConfiguration ListTagsForResource"
    )
    yield from _of_a_bucket(f"{change} {read}", stack, made)
    yield from _on("s3:DeleteObject s3:DeleteObjectVersion", f"arn:aws:s3:::{made.inputs['bucket']}/releases/x")


def _queue_arn(made: Made) -> str:
    name = made.inputs.get("name") or _ID.fullmatch(made.inputs["queueUrl"])[1]  # type: ignore[index]  # it matches everything
    return _arn("sqs", name)


def _queue(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _on("sqs:CreateQueue sqs:TagQueue", _queue_arn(made), requested(made.tags))
    change = "sqs:SetQueueAttributes sqs:DeleteQueue sqs:UntagQueue sqs:GetQueueAttributes sqs:ListQueueTags"
    yield from _on(change, _queue_arn(made), carried(made.tags))


def _queue_setting(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _on("sqs:SetQueueAttributes sqs:GetQueueAttributes", _queue_arn(made))


def _by_name(service: str, resource: str, key: str, actions: str, stack: Stack, made: Made) -> Iterator[Call]:
    """Yield the calls of a resource whose ARN contains its name; all permissions are bound to the ARN."""
    arn = _arn(service, resource.format(made.inputs[key]), region="" if service == "budgets" else REGION)
    yield from _on(" ".join(f"{service}:{one}" for one in actions.split()), arn, requested(made.tags))


def _log_group(stack: Stack, made: Made) -> Iterator[Call]:
    actions = (
        "CreateLogGroup AssociateKmsKey DisassociateKmsKey PutRetentionPolicy DeleteRetentionPolicy DeleteLogGroup "
        "TagResource UntagResource ListTagsForResource"
    )
    for ending in ("", ":*"):
        yield from _by_name("logs", f"log-group:{{}}{ending}", "name", actions, stack, made)
    yield from _on("logs:DescribeLogGroups", "*")


def _runner_project(stack: Stack, made: Made) -> Iterator[Call]:
    own = _arn("codebuild", f"project/{made.inputs['name']}")
    yield from _on("codebuild:CreateProject", own, requested(made.tags))
    yield from _on("codebuild:UpdateProject codebuild:DeleteProject codebuild:BatchGetProjects", own, carried(made.tags))
    yield _pass(made.inputs["serviceRole"], "codebuild.amazonaws.com")
    use = ("GetConnection", "GetConnectionToken", "PassConnection", "UseConnection")
    yield from _on(" ".join(f"codeconnections:{action}" for action in use), made.inputs["source"]["auth"]["resource"])


def _runner_webhook(stack: Stack, made: Made) -> Iterator[Call]:
    own = _arn("codebuild", f"project/{made.inputs['projectName']}")
    change = "codebuild:CreateWebhook codebuild:UpdateWebhook codebuild:DeleteWebhook codebuild:BatchGetProjects"
    yield from _on(change, own)


def _file_system(stack: Stack, made: Made) -> Iterator[Call]:
    own = _arn("fsx", "file-system/fs-0123456789abcdef0")
    yield from _on("fsx:CreateFileSystem fsx:TagResource", own, requested(made.tags))
    change = "fsx:UpdateFileSystem fsx:DeleteFileSystem fsx:TagResource fsx:UntagResource fsx:ListTagsForResource"
    yield from _on(change, own, carried(made.tags))
    yield from _on("fsx:DescribeFileSystems", "*")
    yield _own_role("fsx.amazonaws.com", "AWSServiceRoleForAmazonFSx")
    (vpc,) = [one for one in stack.resources if one.type == "ec2/vpc:Vpc"]
    yield from _on("ec2:GetSecurityGroupsForVpc", _ec2("vpc", vpc.id), carried(vpc.tags))
    if made.inputs.get("kmsKeyId"):
        yield from _uses_key(stack, made.inputs["kmsKeyId"], "fsx")


def _bucket_link(stack: Stack, made: Made) -> Iterator[Call]:
    own, system = _arn("fsx", "association/fs-1/dra-1"), made.inputs["fileSystemId"]
    yield from _on("fsx:CreateDataRepositoryAssociation fsx:TagResource", own, requested(made.tags))
    at = (_arn("fsx", f"file-system/{system}"), requested(made.tags), carried(stack.tags(system)))
    yield from _on("fsx:CreateDataRepositoryAssociation", *at)
    change = "fsx:UpdateDataRepositoryAssociation fsx:DeleteDataRepositoryAssociation fsx:UntagResource"
    yield from _on(f"{change} fsx:ListTagsForResource", own, carried(made.tags))
    yield from _on("fsx:DescribeDataRepositoryAssociations", "*")
    service = "s3.data-source.lustre.fsx.amazonaws.com"
    linked = _own_role(service, "AWSServiceRoleForFSxS3Access_fs-0123456789abcdef0")
    yield linked
    yield from _on("iam:AttachRolePolicy iam:PutRolePolicy", linked.resource)


def _anomaly(kind: str, stack: Stack, made: Made) -> Iterator[Call]:
    own = _arn("ce", f"anomaly{kind.lower()}/1111-2222", region="")
    yield from _on(f"ce:CreateAnomaly{kind}", "*", requested(made.tags))
    yield from _on("ce:TagResource", own, requested(made.tags))
    change = f"ce:UpdateAnomaly{kind} ce:DeleteAnomaly{kind} ce:TagResource ce:UntagResource ce:GetAnomaly{kind}s"
    yield from _on(f"{change} ce:ListTagsForResource", own, carried(made.tags))


def _certificate(stack: Stack, made: Made) -> Iterator[Call]:
    own = _arn("acm", "certificate/01234567-89ab-cdef-0123-456789abcdef")
    yield from _on("acm:RequestCertificate", "*", requested(made.tags))
    yield from _on("acm:AddTagsToCertificate", own, requested(made.tags))
    change = "acm:RemoveTagsFromCertificate acm:DeleteCertificate"
    yield from _on(f"{change} acm:DescribeCertificate acm:ListTagsForCertificate", own, carried(made.tags))


def _issued_certificate(stack: Stack, made: Made) -> Iterator[Call]:
    yield from _on("acm:DescribeCertificate", made.inputs["certificateArn"])


def _record(stack: Stack, made: Made) -> Iterator[Call]:
    zone = f"arn:aws:route53:::hostedzone/{made.inputs['zoneId']}"
    changed = {"route53:ChangeResourceRecordSetsRecordTypes": made.inputs["type"]}
    yield from _on("route53:ChangeResourceRecordSets", zone, changed)
    yield from _on("route53:GetHostedZone route53:ListResourceRecordSets", zone)
    yield from _on("route53:GetChange", "arn:aws:route53:::change/C0123456789")


_RULES: Mapping[str, Callable[[Stack, Made], Iterator[Call]]] = {
    "acm/certificate:Certificate": _certificate,
    "acm/certificateValidation:CertificateValidation": _issued_certificate,
    "autoscaling/tag:Tag": _auto_scaling_tag,
    "budgets/budget:Budget": partial(
        _by_name, "budgets", "budget/{}", "name", "ModifyBudget ViewBudget TagResource UntagResource ListTagsForResource"
    ),
    "cloudwatch/eventRule:EventRule": partial(
        _by_name,
        "events",
        "rule/{}",
        "name",
        "PutRule DeleteRule TagResource UntagResource DescribeRule ListTagsForResource",
    ),
    "cloudwatch/eventTarget:EventTarget": partial(
        _by_name, "events", "rule/{}", "rule", "PutTargets RemoveTargets ListTargetsByRule"
    ),
    "cloudwatch/logGroup:LogGroup": _log_group,
    "cloudwatch/metricAlarm:MetricAlarm": partial(
        _by_name,
        "cloudwatch",
        "alarm:{}",
        "name",
        "PutMetricAlarm DeleteAlarms TagResource UntagResource DescribeAlarms ListTagsForResource",
    ),
    "codebuild/project:Project": _runner_project,
    "codebuild/webhook:Webhook": _runner_webhook,
    "costexplorer/anomalyMonitor:AnomalyMonitor": partial(_anomaly, "Monitor"),
    "costexplorer/anomalySubscription:AnomalySubscription": partial(_anomaly, "Subscription"),
    "ec2/defaultSecurityGroup:DefaultSecurityGroup": _default_security_group,
    "ec2/eip:Eip": partial(
        _made_in_ec2,
        "elastic-ip",
        "AllocateAddress",
        "DisassociateAddress ReleaseAddress",
        "DescribeAddresses DescribeAddressesAttribute",
    ),
    "ec2/flowLog:FlowLog": _flow_log,
    "ec2/internetGateway:InternetGateway": _internet_gateway,
    "ec2/launchTemplate:LaunchTemplate": partial(
        _made_in_ec2,
        "launch-template",
        "CreateLaunchTemplate",
        "CreateLaunchTemplateVersion ModifyLaunchTemplate DeleteLaunchTemplate",
        "DescribeLaunchTemplates DescribeLaunchTemplateVersions",
    ),
    "ec2/natGateway:NatGateway": partial(
        _made_in_ec2, "natgateway", "CreateNatGateway", "DeleteNatGateway", "DescribeNatGateways"
    ),
    "ec2/route:Route": _route,
    "ec2/routeTable:RouteTable": partial(
        _made_in_ec2, "route-table", "CreateRouteTable", "DeleteRouteTable", "DescribeRouteTables"
    ),
    "ec2/routeTableAssociation:RouteTableAssociation": _route_table_association,
    "ec2/securityGroup:SecurityGroup": _security_group,
    "ec2/subnet:Subnet": partial(
        _made_in_ec2,
        "subnet",
        "CreateSubnet",
        "ModifySubnetAttribute DeleteSubnet",
        "DescribeSubnets DescribeNetworkInterfaces",
    ),
    "ec2/vpc:Vpc": _vpc,
    "ec2/vpcEndpoint:VpcEndpoint": _vpc_endpoint,
    "eks/accessEntry:AccessEntry": partial(
        _in_a_cluster,
        "access-entry",
        "CreateAccessEntry",
        "UpdateAccessEntry DeleteAccessEntry UntagResource",
        "DescribeAccessEntry",
    ),
    "eks/accessPolicyAssociation:AccessPolicyAssociation": _access_policy,
    "eks/addon:Addon": _addon,
    _CLUSTER: _cluster,
    "eks/nodeGroup:NodeGroup": _node_group,
    "eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
    "fsx/dataRepositoryAssociation:DataRepositoryAssociation": _bucket_link,
    "fsx/lustreFileSystem:LustreFileSystem": _file_system,
    "iam/instanceProfile:InstanceProfile": _instance_profile,
    "iam/openIdConnectProvider:OpenIdConnectProvider": _oidc_provider,
    "iam/role:Role": _role,
    "iam/rolePolicy:RolePolicy": partial(_of_a_role, "iam:PutRolePolicy iam:GetRolePolicy iam:DeleteRolePolicy"),
    "iam/rolePolicyAttachment:RolePolicyAttachment": partial(
        _of_a_role, "iam:AttachRolePolicy iam:ListAttachedRolePolicies iam:DetachRolePolicy"
    ),
    "kms/alias:Alias": _alias,
    "kms/key:Key": _kms_key,
    "route53/record:Record": _record,
    "s3/bucket:Bucket": _bucket,
    "s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": partial(
        _of_a_bucket, "PutLifecycleConfiguration GetLifecycleConfiguration"
    ),
    "s3/bucketOwnershipControls:BucketOwnershipControls": partial(
        _of_a_bucket, "PutBucketOwnershipControls GetBucketOwnershipControls"
    ),
    "s3/bucketPolicy:BucketPolicy": partial(_of_a_bucket, "PutBucketPolicy GetBucketPolicy DeleteBucketPolicy"),
    "s3/bucketPublicAccessBlock:BucketPublicAccessBlock": partial(
        _of_a_bucket, "PutBucketPublicAccessBlock GetBucketPublicAccessBlock"
    ),
    "s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": partial(
        _of_a_bucket, "PutEncryptionConfiguration GetEncryptionConfiguration"
    ),
    "s3/bucketVersioning:BucketVersioning": partial(_of_a_bucket, "PutBucketVersioning GetBucketVersioning"),
    "sqs/queue:Queue": _queue,
    "sqs/queuePolicy:QueuePolicy": _queue_setting,
    "sqs/redriveAllowPolicy:RedriveAllowPolicy": _queue_setting,
    "vpc/securityGroupEgressRule:SecurityGroupEgressRule": partial(_rule, "Egress"),
    "vpc/securityGroupIngressRule:SecurityGroupIngressRule": partial(_rule, "Ingress"),
}
TYPES = frozenset(_RULES)
