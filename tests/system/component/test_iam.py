"""Every IAM policy document of a stack: known actions, specific resources if they exist, restricted trust."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.aws.account import Account
from infra.platform.cluster_autoscaler import autoscaler_policy
from tests.system.component.engine.recording import Recording, Registration
from tests.system.component.engine.stack_run import StackRun
from tests.system.component.iam_lint import Document, Finding, documents, lint

_POLICY = "aws:iam/rolePolicy:RolePolicy"
_ROLE = "aws:iam/role:Role"
ALLOWED = {
    ("*-key", "kms:*"): "AWS's own default statement: without it nobody could administer the key once its users are gone",
}
"""Owner and action (patterns) of accepted exceptions, with the reason."""


def _not_allowed(found: list[Finding]) -> Iterator[str]:
    for one in found:
        if not any(fnmatchcase(one.owner, owner) and fnmatchcase(one.subject, subject) for owner, subject in ALLOWED):
            yield str(one)


def test_the_documents_of_a_stack_are_in_order(stack_run: StackRun) -> None:
    found = [finding for document in documents(stack_run.up) for finding in lint(document)]
    assert list(_not_allowed(found)) == []


def test_the_documents_of_an_autoscaler_that_no_stack_has_are_in_order() -> None:
    account = Account("123456789012", "aws", "us-west-2", "arn:aws:iam::123456789012:user/test")
    statements = json.loads(autoscaler_policy(account, "triton-dev"))["Statement"]
    assert [str(finding) for finding in lint(Document("cluster-autoscaler", _POLICY, tuple(statements)))] == []


def test_every_document_of_a_stack_is_read(stack_run: StackRun) -> None:
    """Otherwise a policy document in an unknown resource type would escape the checks."""
    seen = {document.owner for document in documents(stack_run.up)}
    assert [item.name for item in stack_run.up.registrations if _has_a_document(item) and item.name not in seen] == []


def _has_a_document(item: Registration) -> bool:
    return any('"Statement"' in value for value in (item.checked or item.inputs).values() if isinstance(value, str))


_OIDC = {"Federated": "arn:aws:iam::123456789012:oidc-provider/oidc.eks"}
_AUD, _SUB = {"oidc.eks:aud": "sts.amazonaws.com"}, {"oidc.eks:sub": "system:serviceaccount:triton:triton"}
_UNBOUNDED = "it S: eks.amazonaws.com: may act for anyone: compare aws:SourceAccount, aws:SourceArn or the pod's tags"
_QUEUE = "arn:aws:sqs:us-west-2:123456789012:requests"


def _lint(type: str, **statement: Any) -> list[str]:
    document = Document("it", type, ({"Sid": "S", "Effect": "Allow", **statement},))
    return [str(finding) for finding in lint(document)]


@pytest.mark.parametrize(
    ("action", "resource", "told"),
    [
        ("sqs:SendMessage", _QUEUE, []),
        ("sqs:SendMesage", _QUEUE, ["it S: sqs:SendMesage: is no action of AWS"]),
        ("sqz:SendMessage", _QUEUE, ["it S: sqz:SendMessage: is no action of AWS"]),
        ("sqs:*", _QUEUE, ["it S: sqs:*: is a pattern: it grows with what AWS adds"]),
        ("sqs:SendMessage", "*", ["it S: sqs:SendMessage: has resource *, and takes queue"]),
        ("sqs:SendMessage", "arn:aws:sqs:*:*:*", ["it S: sqs:SendMessage: has resource *, and takes queue"]),
        ("sqs:SendMessage", "arn:aws:sqs:us-west-2:123456789012:*", []),
        ("s3:PutBucketPolicy", "arn:aws:s3:::*", ["it S: s3:PutBucketPolicy: has resource *, and takes bucket"]),
        (
            "s3:DeleteObject",
            "arn:aws:s3:::*/*",
            ["it S: s3:DeleteObject: has resource *, and takes accesspointobject, object"],
        ),
        ("s3:DeleteObject", "arn:aws:s3:::triton-*/*", []),
        (
            "sqs:SendMessage",
            "arn:aws:s3:::bucket",
            ["it S: sqs:SendMessage: takes queue, and none of its resources is one"],
        ),
        (
            "ec2:DescribeInstances",
            "arn:aws:ec2:us-west-2:123456789012:instance/*",
            ["it S: ec2:DescribeInstances: takes no resource: with anything but * it is allowed nothing"],
        ),
        ("ec2:DescribeInstances", "*", []),
    ],
)
def test_actions_and_resources_that_do_not_fit_are_found(action: str, resource: str, told: list[str]) -> None:
    assert _lint(_POLICY, Action=action, Resource=resource) == told


@pytest.mark.parametrize(
    ("principal", "condition", "told"),
    [
        (_OIDC, {"StringEquals": {**_AUD, **_SUB}}, []),
        (_OIDC, {"StringEquals": _SUB}, [f"it S: {_OIDC['Federated']}: is not bounded by an exact aud"]),
        (_OIDC, {"StringEquals": _AUD, "StringLike": _SUB}, [f"it S: {_OIDC['Federated']}: is not bounded by an exact sub"]),
        (
            _OIDC,
            {"StringEquals": {"other:aud": "x", "other:sub": "y"}},
            [f"it S: {_OIDC['Federated']}: is not bounded by an exact {claim}" for claim in ("aud", "sub")],
        ),
        ("*", {}, ["it S: *: is anyone, in any account"]),
        ({"AWS": ["*"]}, {}, ["it S: *: is anyone, in any account"]),
        ({"Service": "ec2.amazonaws.com"}, {}, []),
        ({"Service": "eks.amazonaws.com"}, {"StringEquals": {"aws:SourceAccount": "123456789012"}}, []),
        (
            {"Service": "eks.amazonaws.com"},
            {},
            ["it S: eks.amazonaws.com: may act for anyone: compare aws:SourceAccount, aws:SourceArn or the pod's tags"],
        ),
        (
            {"Service": "pods.eks.amazonaws.com"},
            {"StringEquals": {"aws:SourceAccount": "123456789012"}},
            ["it S: pods.eks.amazonaws.com: may act for anyone: compare aws:SourceAccount, aws:SourceArn or the pod's tags"],
        ),
    ],
)
def test_trust_without_bounds_is_found(principal: Any, condition: Any, told: list[str]) -> None:
    assert _lint(_ROLE, Action="sts:AssumeRole", Principal=principal, Condition=condition) == told


@pytest.mark.parametrize(
    ("condition", "bounded"),
    [
        ({"StringEquals": {"aws:SourceAccount": "123456789012"}}, True),
        ({"StringLike": {"AWS:sourceaccount": ["123456789012"]}}, True),
        ({"StringEquals": {"aws:SourceAccount": ["123456789012", "210987654321"]}}, False),
        ({"StringEquals": {"aws:SourceAccount": []}}, False),
        ({"StringNotEquals": {"aws:SourceAccount": "123456789012"}}, False),
        ({"StringEqualsIfExists": {"aws:SourceAccount": "123456789012"}}, False),
        ({"ForAllValues:StringEquals": {"aws:SourceAccount": "123456789012"}}, False),
        ({"Null": {"aws:SourceAccount": "false"}}, False),
        ({"StringLike": {"aws:SourceAccount": "*"}}, False),
        ({"StringLike": {"aws:SourceAccount": "1234*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:eks:us-west-2:123456789012:cluster/*"}}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s3:::triton-models"}}, True),
        ({"ArnLike": {"aws:SourceArn": "*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s3:::*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:eks:*:*:cluster/triton-dev"}}, False),
        ({"ArnNotLike": {"aws:SourceArn": "arn:aws:eks:us-west-2:123456789012:cluster/*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:eks:us-west-2:210987654321:cluster/*"}}, False),
    ],
)
def test_only_a_comparison_with_this_account_is_a_bound(condition: Any, bounded: bool) -> None:
    told = _lint(_ROLE, Action="sts:AssumeRole", Principal={"Service": "eks.amazonaws.com"}, Condition=condition)
    assert told == ([] if bounded else [_UNBOUNDED])


@pytest.mark.parametrize(
    ("type", "principal", "stranger"),
    [
        (_ROLE, {"AWS": "arn:aws:iam::123456789012:role/ours"}, None),
        (_ROLE, {"AWS": "123456789012"}, None),
        (_ROLE, {"AWS": ["arn:aws:iam::123456789012:role/ours", "210987654321"]}, "210987654321"),
        (_ROLE, {"AWS": "arn:aws:iam::210987654321:root"}, "arn:aws:iam::210987654321:root"),
        ("aws:sqs/queuePolicy:QueuePolicy", {"AWS": "arn:aws:iam::210987654321:role/x"}, "arn:aws:iam::210987654321:role/x"),
    ],
)
def test_a_principal_of_another_account_is_found(type: str, principal: Any, stranger: str | None) -> None:
    action = "sts:AssumeRole" if type == _ROLE else "sqs:SendMessage"
    told = _lint(type, Action=action, Resource=_QUEUE, Principal=principal)
    assert told == ([f"it S: {stranger}: is of another account"] if stranger else [])


def test_a_statement_about_all_but_what_it_names_is_found() -> None:
    found = _lint(_POLICY, Action="sqs:SendMessage", Resource=_QUEUE, NotAction="iam:*")
    assert found == ["it S: NotAction: means all but what it names"]


def test_a_defect_in_the_program_is_found(stack_run: StackRun) -> None:
    def with_defect(item: Registration) -> Registration:
        if item.name != "model-reader-policy":
            return item
        document = json.loads(item.checked["policy"])
        document["Statement"][1]["Resource"] = ["*"]
        return replace(item, checked={**item.checked, "policy": json.dumps(document)})

    recording = Recording([with_defect(item) for item in stack_run.up.registrations])
    found = [finding for document in documents(recording) for finding in lint(document)]
    told = "model-reader-policy ReadReleases: s3:GetObject: has resource *, and takes accesspointobject, object"
    assert list(_not_allowed(found)) == [told]
