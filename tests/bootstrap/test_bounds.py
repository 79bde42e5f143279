"""The deploy role tags, changes and passes on only our existing or new resources; docs/github.md lists the exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests import snapshots
from tests.bootstrap.roles import scope, writes
from tests.paths import ROOT

TAGS = re.compile(r":((Add|Create|CreateOrUpdate)Tags(To\w+)?|Tag\w+)$")
WITHOUT_A_BOUND = {
    ("TagDefaultGroups", "ec2:CreateTags"): "the default security group",
    ("TagNewProviders", "iam:TagOpenIDConnectProvider"): "the identity provider of a cluster",
    ("TagNewKeys", "kms:TagResource"): "a KMS key without an alias",
    ("TagFileSystems", "fsx:TagResource"): "file systems of FSx",
    ("TagNewCertificates", "acm:AddTagsToCertificate"): "certificates of ACM",
    ("TagNewProfiles", "iam:TagInstanceProfile"): "instance profiles `karpenter-nodes-…`",
    ("TagAnomalyAlarms", "ce:TagResource"): "monitors and subscriptions of Cost Explorer",
    ("TagInOthersClusters", "eks:TagResource"): "node groups and pod identities in an existing cluster",
}
"""Statements and actions without an AWS condition key that distinguishes our resources, and their names in docs/github.md.
"""
OWNED = {"StringEquals": {"aws:ResourceTag/project": "triton-eks", "aws:ResourceTag/environment": "prod"}}
OF_OUR_CLUSTERS = {"StringEquals": {"aws:ResourceTag/aws:eks:cluster-name": ["triton-prod", "shared"]}}
"""Only EKS can set a tag that begins with `aws:`."""
REACH = scope("prod", clusters=["shared"])


def allowed() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every allow statement with each of its actions."""
    for statement in writes(REACH):
        if statement["Effect"] == "Allow":
            yield from ((statement, action) for action in statement["Action"])


def bound(statement: dict[str, Any]) -> bool:
    """Return whether the statement covers only the stack's resources: by tags, name, EKS's cluster tag, or at creation."""
    equal = statement.get("Condition", {}).get("StringEquals", {})
    named = all(re.search("triton-eks/prod/|triton-(models-|requests-)?prod", arn) for arn in statement["Resource"])
    own = {"aws:ResourceTag/project", "aws:ResourceTag/eks:cluster-name", "ec2:CreateAction"}
    return named or bool(own & equal.keys())


def test_nobody_makes_a_strangers_thing_ours_by_tagging_it() -> None:
    """Every change is bound to the tags: a role that may tag any resource may change any resource."""
    found = {(one["Sid"], action) for one, action in allowed() if TAGS.search(action) and not bound(one)}
    assert found == WITHOUT_A_BOUND.keys()


def test_a_thing_without_a_bound_is_not_another_stacks() -> None:
    """Every stack's resources have the tag `project`, so another stack's tags are never changed."""
    for one, action in allowed():
        if (one["Sid"], action) in WITHOUT_A_BOUND:
            assert one["Condition"]["Null"]["aws:ResourceTag/project"] == "true"


@pytest.mark.parametrize(
    "action",
    [
        "ce:TagResource",
        "ec2:CreateTags",
        "fsx:TagResource",
        "iam:TagInstanceProfile",
        "iam:TagOpenIDConnectProvider",
        "iam:TagRole",
    ],
)
def test_a_tag_of_what_is_ours_can_be_changed(action: str) -> None:
    """The engine sends only the changed tags, and so not `project`."""
    assert OWNED in [one.get("Condition") for one, found in allowed() if found == action]


def test_what_has_no_bound_is_said() -> None:
    text = " ".join((ROOT / "docs" / "github.md").read_text(encoding="utf-8").split())
    assert [called for called in WITHOUT_A_BOUND.values() if called not in text] == []


@pytest.mark.parametrize(
    "action",
    [
        "AssociateRouteTable",
        "AttachInternetGateway",
        "CreateLaunchTemplateVersion",
        "CreateRoute",
        "DeleteVpc",
        "ReplaceRoute",
    ],
)
def test_what_is_there_is_changed_where_it_is_ours(action: str) -> None:
    assert [one.get("Condition") for one, found in allowed() if found == f"ec2:{action}"] == [OWNED]


@pytest.mark.parametrize(
    ("action", "made", "made_in"),
    [
        ("CreateSubnet", "subnet", ("vpc",)),
        ("CreateSecurityGroup", "security-group", ("vpc",)),
        ("CreateRouteTable", "route-table", ("vpc",)),
        ("CreateNatGateway", "natgateway", ("subnet", "elastic-ip")),
        ("CreateVpcEndpoint", "vpc-endpoint", ("vpc", "subnet", "security-group", "route-table")),
        ("AuthorizeSecurityGroupIngress", "security-group-rule", ("security-group",)),
        ("RunInstances", "instance", ("launch-template",)),
    ],
)
def test_nothing_is_made_in_what_is_a_strangers(action: str, made: str, made_in: tuple[str, ...]) -> None:
    free = {
        re.split("[:/]", arn)[5]
        for one, found in allowed()
        if found == f"ec2:{action}" and one.get("Condition") not in (OWNED, OF_OUR_CLUSTERS)
        for arn in one["Resource"]
    }
    assert made in free
    assert free.isdisjoint(made_in)


def physical(type_: str) -> list[dict[str, Any]]:
    """Return the inputs of the stacks' resources of a type."""
    return [
        made["inputs"]
        for stack in snapshots.STACKS
        for label, made in snapshots.resources(stack).items()
        if label.endswith(f"({type_})")
    ]


def test_every_role_of_the_stacks_has_the_stacks_boundary_and_its_path_or_its_name() -> None:
    roles = physical("aws:iam/role:Role")
    assert len(roles) > 20
    for role in roles:
        stack = role["tags"]["environment"]
        assert role["permissionsBoundary"] == f"arn:aws:iam::123456789012:policy/triton-eks-boundary-{stack}"
        named = role["name"] == f"triton-{stack}-us-west-2-model-reader"
        assert role.get("path", "/") == ("/" if named else f"/triton-eks/{stack}/")


def test_roles_are_passed_by_name() -> None:
    (passing,) = [one for one, action in allowed() if action == "iam:PassRole"]
    assert passing["Resource"] == [
        "arn:aws:iam::123456789012:role/triton-eks/prod/*",
        "arn:aws:iam::123456789012:role/triton-prod-us-west-2-model-reader",
    ]
    assert list(passing["Condition"]["StringEquals"]) == ["iam:PassedToService"]


def test_the_profiles_of_the_stacks_are_among_those_that_may_be_made() -> None:
    (making,) = [one for one, action in allowed() if action == "iam:CreateInstanceProfile"]
    for profile in physical("aws:iam/instanceProfile:InstanceProfile"):
        arn = f"arn:aws:iam::123456789012:instance-profile/{profile['name']}"
        assert any(fnmatchcase(arn, pattern) for pattern in making["Resource"])
