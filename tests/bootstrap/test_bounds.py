"""The deploy role tags, changes and hands on what is ours or is being made; docs/github.md names the exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from bootstrap import deploy_identity, deploy_permissions
from tests import snapshots
from tests.bootstrap.roles import ACCOUNT
from tests.paths import ROOT

TAGS = re.compile(r":(Create(OrUpdate)?Tags|Tag\w+)$")
WITHOUT_A_BOUND = {
    ("TagDefaultGroups", "ec2:CreateTags"): "the default security group",
    ("MakeProviders", "iam:TagOpenIDConnectProvider"): "the identity provider of a cluster",
    ("TagFileSystems", "fsx:TagResource"): "file systems of FSx",
    ("TagAnomalyAlarms", "ce:TagResource"): "monitors and subscriptions of Cost Explorer",
}
"""Statement and action for which AWS has no key that tells ours from a stranger's, and how docs/github.md calls it."""
OURS = {"StringEquals": {"aws:ResourceTag/project": "triton-eks"}}
OF_OUR_CLUSTERS = {"StringLike": {"aws:ResourceTag/aws:eks:cluster-name": ["triton-*"]}}
"""EKS alone can set a tag that begins with `aws:`."""


def allowed() -> Iterator[tuple[dict[str, Any], str]]:
    """Every statement that allows, with each of its actions."""
    zones = deploy_permissions.domains(ACCOUNT, ["Z1234567890"])
    for statements in (*deploy_permissions.deploy(ACCOUNT).values(), deploy_permissions.access(ACCOUNT), zones):
        for statement in statements:
            if statement["Effect"] == "Allow":
                yield from ((statement, action) for action in statement["Action"])


def named(statement: dict[str, Any]) -> bool:
    """Return whether each of its resources has a name that begins as ours do."""
    return all(not re.split("[:/]", arn)[-1].startswith("*") for arn in statement["Resource"])


def bound(statement: dict[str, Any]) -> bool:
    """Return whether it is about what is ours or is being made: by tag, name, or a key that only a new thing fits."""
    condition = statement.get("Condition", {})
    equal = condition.get("StringEquals", {})
    new = "ec2:CreateAction" in equal or condition.get("Null", {}).get("kms:ResourceAliases") == "true"
    return named(statement) or new or "aws:ResourceTag/project" in equal


def test_nobody_makes_a_strangers_thing_ours_by_tagging_it() -> None:
    """The tag is what every change is bound to: who may give it to anything may change anything."""
    found = {(one["Sid"], action) for one, action in allowed() if TAGS.search(action) and not bound(one)}
    assert found == WITHOUT_A_BOUND.keys()


@pytest.mark.parametrize(
    "action",
    [
        "ce:TagResource",
        "ec2:CreateTags",
        "fsx:TagResource",
        "iam:TagInstanceProfile",
        "iam:TagOpenIDConnectProvider",
        "iam:TagRole",
        "kms:TagResource",
    ],
)
def test_a_tag_of_what_is_ours_can_be_changed(action: str) -> None:
    """The engine sends only the tags that differ, and so not `project`."""
    assert OURS in [one.get("Condition") for one, found in allowed() if found == action]


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
    assert [one.get("Condition") for one, found in allowed() if found == f"ec2:{action}"] == [OURS]


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
        if found == f"ec2:{action}" and one.get("Condition") not in (OURS, OF_OUR_CLUSTERS)
        for arn in one["Resource"]
    }
    assert made in free
    assert free.isdisjoint(made_in)


def physical_names(type_: str) -> set[str]:
    """Return the names that the stacks give in AWS to their resources of a type."""
    return {
        made["inputs"]["name"]
        for stack in snapshots.STACKS
        for label, made in snapshots.resources(stack).items()
        if label.endswith(f"({type_})")
    }


def test_the_patterns_of_names_are_those_of_the_stacks_roles() -> None:
    names, patterns = physical_names("aws:iam/role:Role"), deploy_identity.role_names(ACCOUNT)
    assert [name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns)] == []
    unused = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    of_none_of_ours = [
        "client-keys-reader",
        "container-insights-agent",
        "plan-builder-writer",
        "runner",
    ]
    assert unused == [f"{name}-role-*" for name in of_none_of_ours]


def test_the_roles_of_services_are_passed_by_name() -> None:
    roles = [f"arn:aws:iam::123456789012:role/{name}" for name in deploy_identity.role_names(ACCOUNT)]
    (passing,) = [one for one, action in allowed() if action == "iam:PassRole"]
    assert passing["Resource"] == roles
    assert list(passing["Condition"]["StringEquals"]) == ["iam:PassedToService"]
    for stranger in ("admin", "triton-eks-deploy", "triton-eks-preview", "OrganizationAccountAccessRole"):
        assert not any(fnmatchcase(f"arn:aws:iam::123456789012:role/{stranger}", role) for role in roles)


def test_the_profiles_of_the_stacks_are_among_those_that_may_be_made() -> None:
    (making,) = [one for one, action in allowed() if action == "iam:CreateInstanceProfile"]
    for name in physical_names("aws:iam/instanceProfile:InstanceProfile"):
        arn = f"arn:aws:iam::123456789012:instance-profile/{name}"
        assert any(fnmatchcase(arn, pattern) for pattern in making["Resource"])
