"""Every AWS call of a stack is checked against the policies of its role."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from spec.iam_policy import Statement
from stackctl.orphans import operations as orphans
from stackctl.tunnel import operations as tunnel
from tests import snapshots
from tests.bootstrap import aws_calls
from tests.bootstrap.aws_calls import Made, Stack
from tests.bootstrap.roles import CONNECTION, DEPLOY, PREVIEW, deploy
from tests.paths import ROOT
from tests.system.component import iam_lint
from twin.aws.iam.authorization import Call, refusals

STACKS = ("local", "dev", "staging", "prod")
TAGS = {"project": "triton-eks", "environment": "prod", "owner": "ml-platform"}
MODELS_KEY = "arn:aws:kms:us-west-2:123456789012:key/<models-encryption-key.id>"
CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
CLUSTERS_GROUP = "sg-that-eks-makes"
OPTIONS = (
    Made("acm/certificate:Certificate", "certificate", "arn", {"tags": TAGS}),
    Made("acm/certificateValidation:CertificateValidation", "issued", "arn", {"certificateArn": CERTIFICATE}),
    Made("route53/record:Record", "record", "record", {"zoneId": "Z1234567890", "type": "A"}),
    Made("autoscaling/tag:Tag", "tag", "asg,k8s.io/x", {}),
    Made(
        "codebuild/project:Project",
        "runner",
        "runner",
        {
            "name": "triton-prod-runner",
            "serviceRole": "arn:aws:iam::123456789012:role/triton-eks/prod/runner-role-1234567",
            "source": {"auth": {"resource": CONNECTION}},
            "tags": TAGS,
        },
    ),
    Made("codebuild/webhook:Webhook", "webhook", "webhook", {"projectName": "triton-prod-runner"}),
    Made("costexplorer/anomalyMonitor:AnomalyMonitor", "monitor", "monitor", {"tags": TAGS}),
    Made("costexplorer/anomalySubscription:AnomalySubscription", "subscription", "subscription", {"tags": TAGS}),
    Made(
        "fsx/lustreFileSystem:LustreFileSystem",
        "files",
        "fs-1",
        {"tags": TAGS, "kmsKeyId": MODELS_KEY},
    ),
    Made("fsx/dataRepositoryAssociation:DataRepositoryAssociation", "link", "dra-1", {"tags": TAGS, "fileSystemId": "fs-1"}),
    Made("vpc/securityGroupEgressRule:SecurityGroupEgressRule", "out", "sgr-1", {"tags": TAGS, "securityGroupId": "files"}),
    Made(
        "vpc/securityGroupIngressRule:SecurityGroupIngressRule", "in", "r", {"tags": TAGS, "securityGroupId": CLUSTERS_GROUP}
    ),
    Made("ec2/securityGroup:SecurityGroup", "files", "files", {"tags": TAGS, "vpcId": "<network-vpc.id>"}),
)
"""Resources for statements that no stack of this repository needs, but others may."""


@cache
def resources(stack: str) -> tuple[Made, ...]:
    """Return the AWS resources of a stack, as in its snapshot: ids are `<name.id>`."""
    found = snapshots.resources(stack)
    return tuple(
        Made(label.rpartition(" (aws:")[2].removesuffix(")"), name, f"<{name}.id>", made["inputs"])
        for label, made in found.items()
        if " (aws:" in label
        for name in [label.partition(" ")[0]]
    )


def written() -> set[str]:
    """Return all AWS types in the program (`aws.MODULE.TYPE`), including options that no stack uses."""
    found = set()
    for file in (ROOT / "infra").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="aws"), attr=module), attr=name):
                    named: Any = getattr(getattr(aws, module), name)
                    if pulumi.CustomResource in getattr(named, "__mro__", ()):
                        found.add(named.pulumi_type.removeprefix("aws:"))
    return found


def test_every_type_that_the_program_can_register_has_its_calls() -> None:
    """A new type needs a rule in aws_calls.py, and permissions in bootstrap/."""
    assert {made.type for stack in STACKS for made in resources(stack)} | written() == aws_calls.TYPES
    assert {made.type for made in (*resources("prod"), *OPTIONS)} == aws_calls.TYPES


@pytest.mark.parametrize("stack", STACKS)
def test_a_deployment_may_make_change_and_delete_a_whole_stack_and_bring_releases_to_it(stack: str) -> None:
    whole = Stack(resources(stack))
    assert list(refusals(deploy(stack), [*aws_calls.calls(whole), *aws_calls.promotion(whole)])) == []


@pytest.mark.parametrize("stack", STACKS)
def test_a_preview_may_read_a_whole_stack(stack: str) -> None:
    assert list(refusals(PREVIEW, aws_calls.reads(Stack(resources(stack))))) == []


def with_options() -> Stack:
    return Stack((*resources("prod"), *OPTIONS))


def test_the_roles_suffice_for_what_no_stack_here_has() -> None:
    assert list(refusals(DEPLOY, aws_calls.calls(with_options()))) == []
    assert list(refusals(PREVIEW, aws_calls.reads(with_options()))) == []


def test_every_call_is_one_that_aws_knows_and_names_what_it_takes() -> None:
    told = {
        str(finding)
        for call in aws_calls.calls(with_options())
        for finding in iam_lint.lint(
            iam_lint.Document(
                call.by,
                "aws:iam/policy:Policy",
                ({"Sid": "", "Effect": "Allow", "Action": [call.action], "Resource": [call.resource]},),
            )
        )
    }
    assert told == set()


def without(sid: str) -> list[Statement]:
    found = [one for one in DEPLOY if one["Sid"] != sid]
    assert len(found) == len(DEPLOY) - 1
    return found


def test_a_provider_of_identities_without_our_tag_could_be_neither_made_nor_deleted() -> None:
    bare = [
        replace(made, inputs={**made.inputs, "tags": {}}) if made.type.endswith("OpenIdConnectProvider") else made
        for made in resources("prod")
    ]
    tags = {"project": "triton-eks", "environment": "prod"}.items()
    lacks = ", ".join(f"StringEquals aws:{{0}}Tag/{key} {value}, and it is None" for key, value in tags)
    who = "iam/openIdConnectProvider:OpenIdConnectProvider cluster-oidc-provider"
    arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
    changes = ("Delete", "Update{}Thumbprint", "AddClientIDTo", "RemoveClientIDFrom", "Untag")
    named = [one.format("OpenIDConnectProvider") if "{}" in one else f"{one}OpenIDConnectProvider" for one in changes]
    assert list(refusals(DEPLOY, aws_calls.calls(Stack(bare)))) == [
        f"{who}: iam:CreateOpenIDConnectProvider on {arn}: MakeProviders: {lacks.format('Request')}",
        *(f"{who}: iam:{action} on {arn}: ChangeOurProviders: {lacks.format('Resource')}" for action in named),
        f"{who}: iam:TagOpenIDConnectProvider on {arn}: TagNewProviders: {lacks.format('Request')}; "
        f"ChangeOurProviders: {lacks.format('Resource')}",
    ]


def test_through_a_node_goes_the_deploy_role_alone_and_only_to_forward_a_port() -> None:
    assert list(refusals(DEPLOY, aws_calls.tunnel())) == []
    assert len(list(refusals(DEPLOY, aws_calls.tunnel(document="SSM-SessionManagerRunShell")))) == 1
    assert len(list(refusals(DEPLOY, aws_calls.tunnel(node={"project": "another"})))) == 1
    assert len(list(refusals(PREVIEW, aws_calls.tunnel()))) == 4


@pytest.mark.parametrize(
    "action", ["AuthorizeSecurityGroupIngress", "ModifySecurityGroupRules", "RevokeSecurityGroupIngress"]
)
def test_who_is_let_into_a_cluster_of_others_can_be_sent_away_whatever_tags_its_owner_gives(action: str) -> None:
    def told(cluster: str, named: str) -> int:
        group = {"aws:ResourceTag/aws:eks:cluster-name": cluster, "aws:ResourceTag/project": "the-owners"}
        call = Call(f"ec2:{action}", "arn:aws:ec2:us-west-2:123456789012:security-group/sg-1", group)
        return len(list(refusals(deploy("prod", named), [call])))

    assert (told("shared", "shared"), told("triton-prod", "shared"), told("another", "shared")) == (0, 0, 1)


@pytest.mark.parametrize("sid", sorted(one["Sid"] for one in DEPLOY if one["Effect"] == "Allow"))
def test_each_statement_is_missed_when_it_is_not_there(sid: str) -> None:
    stack = with_options()
    calls = [*aws_calls.calls(stack), *aws_calls.promotion(stack)]
    assert next(refusals(without(sid), calls), None) is not None


STRANGERS_KEY = "arn:aws:kms:us-west-2:123456789012:key/0123abcd-strangers"
USES = ("CreateGrant", "Decrypt", "GenerateDataKey", "PutKeyPolicy", "ScheduleKeyDeletion", "UntagResource", "UpdateAlias")
"""Actions that give the role a key, or take it from others."""


@pytest.mark.parametrize(
    "context",
    [{}, {"kms:ResourceAliases": "alias/theirs"}, {"aws:ResourceTag/project": "theirs"}],
    ids=["without an alias", "with an alias", "with tags"],
)
@pytest.mark.parametrize("action", USES)
def test_a_strangers_key_is_neither_used_nor_taken(action: str, context: dict[str, str]) -> None:
    assert len(list(refusals(DEPLOY, [Call(f"kms:{action}", STRANGERS_KEY, context)]))) == 1


@pytest.mark.parametrize("service", ["ebs", "s3", "secretsmanager"])
def test_a_key_of_a_stranger_is_granted_to_no_other_service(service: str) -> None:
    context = {"kms:ViaService": f"{service}.us-west-2.amazonaws.com"}
    assert len(list(refusals(DEPLOY, [Call("kms:CreateGrant", STRANGERS_KEY, context)]))) == 1


def test_a_key_that_has_a_strangers_alias_gets_no_other_and_no_grant() -> None:
    context = {"kms:ResourceAliases": "alias/theirs", "kms:ViaService": "eks.us-west-2.amazonaws.com"}
    asked = [Call(f"kms:{action}", STRANGERS_KEY, context) for action in ("CreateAlias", "CreateGrant", "EnableKeyRotation")]
    assert len(list(refusals(DEPLOY, asked))) == 3


ASKED_ELSEWHERE = {
    *(action for known in orphans.OPERATIONS.values() for action in known.values()),
    *(action for known in tunnel.OPERATIONS.values() for action in known.values()),
}
"""Used by a teardown and a tunnel: tests/bootstrap/test_deploy_permissions.py."""
READ_ONLY = {
    "autoscaling:DescribeAutoScalingGroups",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeNetworkAcls",
    "ec2:DescribeTags",
    "ec2:DescribeVpcEndpointServices",
    "eks:DescribeAddonVersions",
    "eks:DescribeClusterVersions",
    "eks:ListAccessEntries",
    "eks:ListAddons",
    "eks:ListPodIdentityAssociations",
    "eks:ListTagsForResource",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
    "iam:ListInstanceProfileTags",
    "iam:ListPolicyVersions",
    "iam:ListRoleTags",
    "kms:ListKeys",
    "s3:GetBucketLocation",
    "sqs:GetQueueUrl",
}
"""Not in aws_calls.py: AWS's pages name them, other versions of providers may call them, and they read no data."""


def _missed(statements: list[Statement], asked: Iterable[Call]) -> set[str]:
    """Return the actions that one statement could lose without a refused call."""
    asked = tuple(asked)
    by_action = {action: [call for call in asked if call.action == action] for action in {call.action for call in asked}}
    return {
        action
        for at, statement in enumerate(statements)
        if statement["Effect"] == "Allow"
        for action in statement["Action"]
        if not list(refusals(_without(statements, at, action), by_action.get(action, ())))
    }


def _without(statements: list[Statement], at: int, action: str) -> list[Statement]:
    left = [one for one in statements[at]["Action"] if one != action]
    return [*statements[:at], {**statements[at], "Action": left}, *statements[at + 1 :]]


def test_each_action_of_the_roles_is_missed_when_it_is_not_there() -> None:
    """A permission without a call is unnecessary, or a call is missing in aws_calls.py."""
    known = ASKED_ELSEWHERE | READ_ONLY
    stack = with_options()
    missed = _missed(DEPLOY, [*aws_calls.calls(stack), *aws_calls.promotion(stack)])
    assert missed - known == set()
    assert _missed(PREVIEW, aws_calls.reads(stack)) - known == set()
    assert READ_ONLY - missed == set()


@pytest.mark.parametrize(
    ("condition", "context", "allowed"),
    [
        ({}, {}, True),
        ({"StringEquals": {"k": "v"}}, {"k": "v"}, True),
        ({"StringEquals": {"k": "v*"}}, {"k": "vw"}, False),
        ({"StringEquals": {"k": ["u", "v"]}}, {"k": "v"}, True),
        ({"StringEquals": {"k": "v"}}, {}, False),
        ({"StringLike": {"k": "v*"}}, {"k": "vw"}, True),
        ({"StringLike": {"k": "v?"}}, {"k": "v"}, False),
        ({"ArnLike": {"k": "arn:aws:ec2:*:1:vpc/*"}}, {"k": "arn:aws:ec2:x:1:vpc/y"}, True),
        ({"ArnLike": {"k": "arn:aws:ec2:*:vpc/*"}}, {"k": "arn:aws:ec2:x:1:vpc/y"}, False),
        ({"Null": {"k": "true"}}, {}, True),
        ({"BoolIfExists": {"k": "true"}}, {}, True),
        ({"BoolIfExists": {"k": "true"}}, {"k": "false"}, False),
        ({"Null": {"k": "true"}}, {"k": "v"}, False),
        ({"Null": {"k": "false"}}, {"k": "v"}, True),
        ({"BoolIfExists": {"k": "true"}}, {}, True),
        ({"BoolIfExists": {"k": "true"}}, {"k": "true"}, True),
        ({"BoolIfExists": {"k": "true"}}, {"k": "false"}, False),
        ({"ForAnyValue:StringLike": {"k": ["v*"]}}, {"k": ("u", "vw")}, True),
        ({"ForAnyValue:StringLike": {"k": ["v*"]}}, {"k": ("u",)}, False),
        ({"ForAnyValue:StringLike": {"k": ["v*"]}}, {}, False),
        ({"StringEquals": {"k": "v"}, "StringLike": {"l": "w"}}, {"k": "v"}, False),
    ],
)
def test_a_condition_holds_as_iam_has_it(condition: dict[str, Any], context: dict[str, Any], allowed: bool) -> None:
    statement = {"Sid": "S", "Effect": "Allow", "Action": ["a:B"], "Resource": ["arn:x:*"], "Condition": condition}
    assert (list(refusals([statement], [Call("a:B", "arn:x:y", context)])) == []) is allowed


def test_a_deny_wins_and_what_is_not_understood_is_an_error() -> None:
    allow = {"Sid": "A", "Effect": "Allow", "Action": ["a:B"], "Resource": ["*"]}
    deny = {**allow, "Sid": "D", "Effect": "Deny"}
    assert list(refusals([allow, deny], [Call("a:B", "r", by="it")])) == ["it: a:B on r: denied by D"]
    assert list(refusals([allow], [Call("a:C", "r", by="it")])) == ["it: a:C on r: no statement has the action"]
    for unknown in ({"Condition": {"Bool": {"k": "true"}}}, {"NotAction": ["a:C"]}, {"Resource": ["${aws:username}"]}):
        with pytest.raises(ValueError, match="not evaluated here"):
            list(refusals([{**allow, **unknown}], [Call("a:B", "r")]))
