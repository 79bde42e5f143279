"""The deploy role of an environment, and the roles that it creates, reach only its own stacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations
from typing import Any

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from bootstrap import permissions
from spec.boundary import boundary
from spec.iam_policy import Statement
from tests.bootstrap import aws_calls
from tests.bootstrap.aws_calls import Stack
from tests.bootstrap.roles import ACCOUNT, CONNECTION, scope, writes
from tests.bootstrap.test_calls import OPTIONS, resources
from twin.aws.iam.authorization import Call, refusals

ENVIRONMENTS = ("dev", "staging", "prod")
PAIRS = list(permutations(ENVIRONMENTS, 2))
FACTS = ("aws:ResourceTag/", "kms:ResourceAliases", "ssm:resourceTag/")
"""Condition keys that describe a resource. All others come with the request, so the caller chooses them."""
AT_CREATION = re.compile(r"Make(Alone|FileSystems|FromOthers|Links|Networks|Profiles|Providers)|TagWhatIsMade|Describe.*")
"""AWS evaluates these on the resources that a call creates, never on existing ones. The last ones only read, like
`permissions.read`.
"""
NEW = ("instance/new", "network-interface/new", "volume/new")
READS_RELEASES = {("staging", "dev"), ("prod", "staging")}
"""The deploy role of the first reads releases of the second, and then serves them."""
ADMIN = "arn:aws:iam::aws:policy/AdministratorAccess"
BOUNDARY = "arn:aws:iam::123456789012:policy/triton-eks-boundary-prod"
OWN_ROLE = "arn:aws:iam::123456789012:role/triton-eks/prod/nodes-role-1234567"
OWN_TAGS = {"aws:ResourceTag/project": "triton-eks", "aws:ResourceTag/environment": "prod"}
OWN_REQUEST = {"aws:RequestTag/project": "triton-eks", "aws:RequestTag/environment": "prod"}
OWN_BOUNDED = {**OWN_TAGS, "iam:PermissionsBoundary": BOUNDARY}
ITSELF = "arn:aws:iam::123456789012:role/triton-eks-deploy-prod"
STRANGER = "arn:aws:iam::123456789012:role/administrator"
KEY = "arn:aws:kms:us-west-2:123456789012:key/0123abcd"


@cache
def things(environment: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the ARN of each resource of the environment's stack, with its facts in AWS."""
    extra = OPTIONS if environment == "prod" else ()
    found: dict[str, dict[str, Any]] = {}
    for call in aws_calls.calls(Stack((*resources(environment), *extra))):
        facts = {key: value for key, value in call.context.items() if key.startswith(FACTS)}
        told = [call.resource, *map(str, facts.values())]
        if any(f"triton-{environment}" in one or f"-{environment}-" in one or one == environment for one in told) or (
            f"/triton-eks/{environment}/" in call.resource
        ):
            found[call.resource] = max(found.get(call.resource, {}), facts, key=len)
    return found


def chosen(statement: Statement, action: str) -> dict[str, Any]:
    """Return the request values that make the statement match, as far as the caller can choose them."""
    context = {}
    for operator, wanted in statement.get("Condition", {}).items():
        for key, values in wanted.items():
            one = values[0] if isinstance(values, list) else values
            if operator != "Null" and not key.startswith(FACTS):
                context[key] = one.replace("*", "x")
    return context


def attempts(statements: list[Statement], environment: str) -> Iterator[Call]:
    """Yield every action of the statements, on every resource of the environment in the action's service."""
    for statement in statements:
        if statement["Effect"] == "Allow" and statement["Resource"] != ["*"]:
            for action in statement["Action"]:
                for arn, facts in things(environment).items():
                    if arn.split(":")[2] == action.split(":")[0]:
                        yield Call(action, arn, {**chosen(statement, action), **facts}, by=statement["Sid"])


def allowed(statements: list[Statement], calls: Iterator[Call]) -> list[Call]:
    return [call for call in calls if not list(refusals(statements, [call]))]


@pytest.mark.parametrize(("environment", "other"), PAIRS)
def test_a_deploy_role_changes_nothing_of_another_environment(environment: str, other: str) -> None:
    statements = [one for one in writes(scope(environment)) if not AT_CREATION.fullmatch(one["Sid"])]
    tried = list(attempts(statements, other))
    assert len(tried) > 1000
    reached = [call for call in allowed(statements, iter(tried)) if not call.resource.endswith(NEW)]
    releases = {"s3:GetObject", "kms:Decrypt"}
    assert {call.action for call in reached} == (releases if (environment, other) in READS_RELEASES else set())
    assert all("/releases/" in call.resource for call in reached if call.action == "s3:GetObject")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_same_attempts_reach_its_own(environment: str) -> None:
    """Otherwise the test above would prove nothing."""
    statements = writes(scope(environment))
    assert len({call.action for call in allowed(statements, attempts(statements, environment))}) > 100


@pytest.mark.parametrize(("environment", "other"), PAIRS)
def test_a_deploy_role_neither_reads_nor_writes_the_state_of_another_environment(environment: str, other: str) -> None:
    def keys(stack: str) -> list[str]:
        return [
            f"arn:aws:s3:::b/.pulumi/{key}"
            for key in (
                f"stacks/triton-eks/{stack}.json",
                f"stacks/triton-eks/{stack}.json.bak",
                f"history/triton-eks/{stack}/{stack}-1764312000000000000.history.json",
                f"backups/triton-eks/{stack}/{stack}.1764312000000000000.json",
                f"locks/organization/triton-eks/{stack}/0c5a54a2-5a5e-4f0e-8d6b-0f6c9c8d3f55.json",
            )
        ]

    access = permissions.StateAccess("arn:aws:s3:::b", "arn:k1", "arn:k2")
    statements = json.loads(permissions.write_state(access, [environment]))["Statement"]
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert allowed(statements, (Call(action, key) for key in (*keys(other), *keys(f"{environment}-eu")))) == []
    assert len(allowed(statements, (Call("s3:PutObject", key) for key in keys(environment)))) == 5
    assert len(allowed(statements, (Call("s3:DeleteObject", key) for key in keys(environment)))) == 1


ESCALATIONS = {
    "a role without a boundary": Call("iam:CreateRole", OWN_ROLE, OWN_REQUEST),
    "a role with another boundary": Call("iam:CreateRole", OWN_ROLE, {**OWN_REQUEST, "iam:PermissionsBoundary": ADMIN}),
    "a role of no stack": Call("iam:CreateRole", STRANGER, {**OWN_REQUEST, "iam:PermissionsBoundary": BOUNDARY}),
    "a policy of its own on an unbounded role": Call("iam:PutRolePolicy", OWN_ROLE, OWN_TAGS),
    "a policy of AWS on an unbounded role": Call(
        "iam:AttachRolePolicy", OWN_ROLE, {**OWN_TAGS, "iam:PolicyARN": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"}
    ),
    "AdministratorAccess": Call("iam:AttachRolePolicy", OWN_ROLE, {**OWN_BOUNDED, "iam:PolicyARN": ADMIN}),
    "another boundary": Call("iam:PutRolePermissionsBoundary", OWN_ROLE, {**OWN_TAGS, "iam:PermissionsBoundary": ADMIN}),
    "no boundary": Call("iam:DeleteRolePermissionsBoundary", OWN_ROLE, OWN_BOUNDED),
    **{
        f"{action} of the boundary": Call(f"iam:{action}", BOUNDARY)
        for action in ("CreatePolicyVersion", "DeletePolicy", "DeletePolicyVersion", "SetDefaultPolicyVersion")
    },
    **{
        f"{action} on {role.rpartition('/')[2]}": Call(
            f"iam:{action}",
            role,
            {
                **OWN_BOUNDED,
                **OWN_REQUEST,
                "iam:PolicyARN": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy",
                "iam:PassedToService": "ec2.amazonaws.com",
            },
        )
        for role in (ITSELF, STRANGER, "arn:aws:iam::123456789012:role/nodes-role-1234567")
        for action in (
            "AttachRolePolicy",
            "PassRole",
            "PutRolePermissionsBoundary",
            "PutRolePolicy",
            "TagRole",
            "UpdateAssumeRolePolicy",
        )
    },
    "a role to a service that runs code": Call("iam:PassRole", OWN_ROLE, {"iam:PassedToService": "lambda.amazonaws.com"}),
    "a profile with a stranger's role": Call("iam:PassRole", STRANGER, {"iam:PassedToService": "ec2.amazonaws.com"}),
    "a user": Call("iam:CreateUser", "arn:aws:iam::123456789012:user/x"),
    "a key of a user": Call("iam:CreateAccessKey", "arn:aws:iam::123456789012:user/x"),
    "another role": Call("sts:AssumeRole", STRANGER),
    "a shell on a node": Call(
        "ssm:StartSession",
        "arn:aws:ssm:us-west-2::document/SSM-SessionManagerRunShell",
        {"ssm:SessionDocumentAccessCheck": "true"},
    ),
    "a stranger's key, by its tags alone": Call("kms:PutKeyPolicy", KEY, OWN_TAGS),
    "a stranger's key, by its alias alone": Call("kms:Decrypt", KEY, {"kms:ResourceAliases": "alias/triton-prod-x"}),
    "a tag on a key with an alias": Call("kms:TagResource", KEY, {**OWN_REQUEST, "kms:ResourceAliases": "alias/theirs"}),
    "a tag on a key of another environment": Call(
        "kms:TagResource",
        KEY,
        {**OWN_REQUEST, "aws:ResourceTag/project": "triton-eks", "aws:ResourceTag/environment": "dev"},
    ),
    "a connection to another repository": Call("codeconnections:GetConnectionToken", CONNECTION.replace("0123", "9999")),
}


@pytest.mark.parametrize("call", ESCALATIONS.values(), ids=list(ESCALATIONS))
def test_a_deploy_role_has_no_path_to_an_administrator_or_a_strangers_key(call: Call) -> None:
    assert len(list(refusals(writes(scope("prod")), [call]))) == 1


def without(sid: str, key: str) -> list[Statement]:
    """Return the deploy role without one condition, or with `key` "", without one statement."""
    statements: list[Statement] = json.loads(json.dumps(writes(scope("prod"))))
    (guarded,) = [one for one in statements if one["Sid"] == sid]
    if not key:
        return [one for one in statements if one is not guarded]
    (conditions,) = [keys for keys in guarded["Condition"].values() if key in keys]
    del conditions[key]
    return statements


@pytest.mark.parametrize(
    ("sid", "key", "opened"),
    [
        ("MakeRoles", "iam:PermissionsBoundary", {"a role without a boundary", "a role with another boundary"}),
        ("BoundOurRoles", "iam:PermissionsBoundary", {"a policy of its own on an unbounded role", "another boundary"}),
        ("AttachOurRoles", "iam:PermissionsBoundary", {"a policy of AWS on an unbounded role"}),
        ("AttachOurRoles", "iam:PolicyARN", {"AdministratorAccess"}),
        ("PassOurRoles", "iam:PassedToService", {"a role to a service that runs code"}),
        ("OurKeys", "kms:ResourceAliases", {"a stranger's key, by its tags alone"}),
        ("OurKeys", "aws:ResourceTag/project", set()),
        ("TagNewKeys", "kms:ResourceAliases", {"a tag on a key with an alias"}),
        ("TagNewKeys", "aws:ResourceTag/project", {"a tag on a key of another environment"}),
    ],
)
def test_each_guard_closes_something(sid: str, key: str, opened: set[str]) -> None:
    statements = without(sid, key)
    assert {name for name, call in ESCALATIONS.items() if not list(refusals(statements, [call]))} == opened


EVERYTHING = {"Sid": "Everything", "Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
GUARDED_BY_DENY = {
    "NeverWithoutBoundary": {"no boundary"},
    "NeverItselfNorBoundaries": {
        *(f"{action} of the boundary" for action in ("CreatePolicyVersion", "DeletePolicy", "DeletePolicyVersion")),
        "SetDefaultPolicyVersion of the boundary",
        *(
            f"{action} on triton-eks-deploy-prod"
            for action in ("AttachRolePolicy", "PassRole", "PutRolePermissionsBoundary", "PutRolePolicy", "TagRole")
        ),
        "UpdateAssumeRolePolicy on triton-eks-deploy-prod",
    },
}


@pytest.mark.parametrize("sid", GUARDED_BY_DENY)
def test_what_is_never_allowed_stays_so_whatever_else_the_role_is_given(sid: str) -> None:
    named = {name: ESCALATIONS[name] for name in GUARDED_BY_DENY[sid]}
    assert len(list(refusals([*writes(scope("prod")), EVERYTHING], named.values()))) == len(named)
    assert list(refusals([*without(sid, ""), EVERYTHING], named.values())) == []


def ceiling(stack: str) -> list[Statement]:
    """Return the maximum permissions of a stack's role, with a policy that allows everything."""
    found: list[Statement] = json.loads(boundary(ACCOUNT.id, ACCOUNT.region, stack, stack, connection=CONNECTION))[
        "Statement"
    ]
    return found


@pytest.mark.parametrize(
    "action",
    [
        "ec2:AssociateIamInstanceProfile",
        "ec2:ModifyInstanceAttribute",
        "ec2:ReplaceIamInstanceProfileAssociation",
        "eks:AssociateAccessPolicy",
        "eks:CreateAccessEntry",
        "iam:AttachRolePolicy",
        "iam:CreateAccessKey",
        "iam:CreatePolicyVersion",
        "iam:CreateRole",
        "iam:CreateUser",
        "iam:DeleteRolePermissionsBoundary",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
        "iam:UpdateAssumeRolePolicy",
        "kms:PutKeyPolicy",
        "kms:ScheduleKeyDeletion",
        "lambda:CreateFunction",
        "organizations:LeaveOrganization",
        "s3:PutBucketPolicy",
        "secretsmanager:PutSecretValue",
        "ssm:PutParameter",
        "ssm:SendCommand",
        "ssm:StartSession",
        "sts:AssumeRole",
    ],
)
def test_a_role_with_every_permission_still_has_no_path_to_an_administrator(action: str) -> None:
    calls = [Call(action, arn, facts) for arn, facts in things("prod").items()]
    calls += [Call(action, arn, OWN_BOUNDED) for arn in ("*", ITSELF, STRANGER, OWN_ROLE, BOUNDARY)]
    assert allowed(ceiling("prod"), iter(calls)) == []


def test_a_role_passes_only_roles_of_its_stack_and_only_to_instances() -> None:
    def passed(role: str, service: str) -> bool:
        return not list(refusals(ceiling("prod"), [Call("iam:PassRole", role, {"iam:PassedToService": service})]))

    assert passed(OWN_ROLE, "ec2.amazonaws.com")
    assert not passed(OWN_ROLE, "lambda.amazonaws.com")
    assert not passed(STRANGER, "ec2.amazonaws.com")
    assert not passed(ITSELF, "ec2.amazonaws.com")
    assert not passed("arn:aws:iam::123456789012:role/triton-eks/dev/nodes-role-1234567", "ec2.amazonaws.com")


@pytest.mark.parametrize("context", [{}, {"kms:ResourceAliases": "alias/theirs"}, OWN_TAGS])
def test_a_role_uses_no_key_without_the_stacks_alias(context: dict[str, str]) -> None:
    calls = [Call(f"kms:{action}", KEY, context) for action in ("CreateGrant", "Decrypt", "Encrypt", "GenerateDataKey")]
    assert allowed(ceiling("prod"), iter(calls)) == []


def granted(stack: str) -> Iterator[Call]:
    """Yield the calls that a stack's role policies allow: each action on each resource, with the statement's conditions."""
    keys = {
        f"<{made.inputs['targetKeyId'][1:-4]}.id>": made.inputs["name"] for made in resources(stack) if "alias" in made.type
    }
    for made in resources(stack):
        if made.type == "iam/rolePolicy:RolePolicy":
            for statement in made.inputs["policy"]["(JSON text)"]["Statement"]:
                context = {
                    key: (values[0] if isinstance(values, list) else values).replace("*", "x")
                    for operator, wanted in statement.get("Condition", {}).items()
                    if operator != "Null"
                    for key, values in wanted.items()
                }
                for action in statement["Action"]:
                    for resource in statement["Resource"]:
                        alias = keys.get(resource.partition(":key/")[2])
                        known = {} if alias is None else {"kms:ResourceAliases": alias}
                        if action.startswith("autoscaling:"):
                            known["aws:ResourceTag/eks:cluster-name"] = f"triton-{stack}"
                        yield Call(action, resource, {**context, **known}, by=made.name)


@pytest.mark.parametrize("stack", ("local", *ENVIRONMENTS))
def test_the_boundary_takes_nothing_from_the_roles_of_a_stack(stack: str) -> None:
    calls = list(granted(stack))
    assert len(calls) > 10
    assert list(refusals(ceiling(stack), calls)) == []


@pytest.mark.parametrize(("environment", "other"), PAIRS)
def test_the_boundary_of_an_environment_refuses_what_another_ones_roles_use(environment: str, other: str) -> None:
    named = (f"triton-{other}", f"-{other}-", f"/{other}/")
    theirs = [
        call
        for call in granted(other)
        if any(part in told for told in (call.resource, call.context.get("kms:ResourceAliases", "")) for part in named)
        and not call.action.startswith("eks:Describe")
    ]
    topics = {call.action for call in theirs if not list(refusals(ceiling(environment), [call]))}
    assert len(theirs) > 3
    assert topics <= {"sns:Publish"}, "a topic is nobody's environment: people create it"


@pytest.mark.parametrize(("environment", "other"), PAIRS)
def test_a_role_changes_no_tagged_thing_of_another_environment(environment: str, other: str) -> None:
    tags = {"aws:ResourceTag/project": "triton-eks", "aws:ResourceTag/environment": other}
    arns = {
        "ec2:TerminateInstances": "arn:aws:ec2:us-west-2:123456789012:instance/i-1",
        "ec2:DetachVolume": "arn:aws:ec2:us-west-2:123456789012:volume/vol-1",
        "ec2:AuthorizeSecurityGroupIngress": "arn:aws:ec2:us-west-2:123456789012:security-group/sg-1",
        "ec2:RunInstances": "arn:aws:ec2:us-west-2:123456789012:subnet/subnet-1",
        "elasticloadbalancing:DeleteTargetGroup": "arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/x/1",
    }
    assert allowed(ceiling(environment), (Call(action, arn, tags) for action, arn in arns.items())) == []
    assert len(allowed(ceiling(other), (Call(action, arn, tags) for action, arn in arns.items()))) == len(arns)


LEFT_OUT = {
    "autoscaling:UpdateAutoScalingGroup",
    "ec2:CreateRoute",
    "ec2:DeleteRoute",
    "ec2:ModifyInstanceAttribute",
}
"""Of AmazonEKSClusterPolicy, for the routes of clusters without the vpc-cni, and for scaling by the control plane."""


def test_the_boundary_takes_from_awss_policies_only_what_the_platform_does_not_use() -> None:
    policies = json.loads(aws_managed_policies_data)
    names = {
        made.inputs["policyArn"].rpartition("/")[2]
        for stack in ENVIRONMENTS
        for made in resources(stack)
        if made.type == "iam/rolePolicyAttachment:RolePolicyAttachment"
    }
    assert len(names) >= 6
    resource = {
        "ec2": "arn:aws:ec2:us-west-2:123456789012:volume/vol-1",
        "ssm": "arn:aws:ssm:us-west-2::parameter/aws/service/x",
        "kms": KEY,
        "iam": "arn:aws:iam::123456789012:role/aws-service-role/elasticloadbalancing.amazonaws.com/x",
        "eks-auth": "arn:aws:eks:us-west-2:123456789012:cluster/triton-prod",
    }
    context = {
        "kms:ResourceAliases": "alias/triton-prod-secrets",
        "aws:ResourceTag/ebs.csi.aws.com/cluster-name": "triton-prod",
    }
    refused = set()
    for name in names:
        for statement in policies[name]["Document"]["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            for action in actions:
                arn = resource.get(action.split(":")[0], "*")
                if "snapshot" in str(statement["Resource"]) and "volume" not in str(statement["Resource"]):
                    arn = "arn:aws:ec2:us-west-2::snapshot/snap-1"
                refused |= {action} if list(refusals(ceiling("prod"), [Call(action, arn, context)])) else set()
    assert refused == LEFT_OUT


def test_a_boundary_fits_into_a_managed_policy_where_names_are_longest() -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html: 6,144 characters without white space."""
    text = boundary(
        "123456789012",
        "ap-northeast-1",
        "s" * 24,
        "staging",
        partition="aws-us-gov",
        clusters=["c" * 30] * 2,
        connection=CONNECTION,
        older_node_roles=["arn:aws-us-gov:iam::123456789012:role/nodes-role-1234567"] * 2,
    )
    assert len(json.dumps(json.loads(text), separators=(",", ":"))) <= 6144
