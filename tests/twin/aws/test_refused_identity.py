"""Mistakes in IAM, KMS and CloudWatch resources that AWS refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import (
    ALIAS,
    ATTACHMENT,
    KEY,
    LOG_GROUP,
    MANAGED,
    OIDC,
    POLICY,
    ROLE,
    ROLE_POLICY,
    SERVICE_ROLE,
    World,
    policy,
    trust,
)
from twin.aws.base.clients import Clients

_ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/ABC"
_PROVIDER = f"arn:aws:iam::123456789012:oidc-provider/{_ISSUER}"
_ACCOUNT = "arn:aws:iam::123456789012:root"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    world.make(OIDC, "provider", url=f"https://{_ISSUER}", clientIdLists=["sts.amazonaws.com"])
    world.make(ROLE, "role", assumeRolePolicy=trust("ec2.amazonaws.com"))
    world.make(KEY, "key", description="plain")
    world.make(SERVICE_ROLE, "spot", awsServiceName="spot.amazonaws.com")
    yield world


def _web_identity(provider: str = _PROVIDER, issuer: str = _ISSUER, action: str = "sts:AssumeRoleWithWebIdentity") -> str:
    condition = {"StringEquals": {f"{issuer}:sub": "system:serviceaccount:a:b"}}
    return policy(Effect="Allow", Principal={"Federated": provider}, Action=action, Condition=condition)


def _role(document: str, **changes: Any) -> dict[str, Any]:
    return {"assumeRolePolicy": document, **changes}


ROLES = [
    Refusal(
        "a second role of a service",
        SERVICE_ROLE,
        lambda w: {"awsServiceName": "spot.amazonaws.com"},
        "CreateServiceLinkedRole: InvalidInput: the service role name of spot.amazonaws.com has been taken",
    ),
    Refusal(
        "a trust policy that is not JSON",
        ROLE,
        lambda w: _role("{"),
        "aws:iam/role:Role: assumeRolePolicy: not a JSON policy document: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    Refusal(
        "a trust policy without a version",
        ROLE,
        lambda w: _role(json.dumps({"Statement": json.loads(trust("ec2.amazonaws.com"))["Statement"]})),
        "aws:iam/role:Role: assumeRolePolicy.Version: None; use 2012-10-17",
    ),
    Refusal(
        "a trust policy with a resource",
        ROLE,
        lambda w: _role(policy(Effect="Allow", Principal={"AWS": _ACCOUNT}, Action="sts:AssumeRole", Resource="*")),
        "aws:iam/role:Role: assumeRolePolicy.Statement[0].Resource: not allowed in a trust policy",
    ),
    Refusal(
        "an unknown statement element",
        ROLE,
        lambda w: _role(policy(Effect="Allow", Principal={"AWS": _ACCOUNT}, Action="sts:AssumeRole", Conditon={})),
        "aws:iam/role:Role: assumeRolePolicy.Statement[0].Conditon: unknown statement element",
    ),
    Refusal(
        "a service that is not one",
        ROLE,
        lambda w: _role(trust("ec2")),
        "trust policy: 'ec2' is not a service principal (<service>.amazonaws.com)",
    ),
    Refusal(
        "a principal that does not exist",
        ROLE,
        lambda w: _role(
            policy(Effect="Allow", Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"}, Action="sts:AssumeRole")
        ),
        "trust policy: principal arn:aws:iam::123456789012:role/nobody does not exist",
    ),
    Refusal(
        "everyone",
        ROLE,
        lambda w: _role(policy(Effect="Allow", Principal="*", Action="sts:AssumeRole")),
        "trust policy: principal '*' opens the role to everyone",
    ),
    Refusal(
        "an OIDC provider that does not exist",
        ROLE,
        lambda w: _role(_web_identity(provider="arn:aws:iam::123456789012:oidc-provider/nowhere")),
        "trust policy: OIDC provider arn:aws:iam::123456789012:oidc-provider/nowhere does not exist",
    ),
    Refusal(
        "a condition on another issuer",
        ROLE,
        lambda w: _role(_web_identity(issuer="oidc.eks.us-west-2.amazonaws.com/id/XYZ")),
        "trust policy: condition key oidc.eks.us-west-2.amazonaws.com/id/XYZ:sub does not belong to the trusted issuer "
        f"{_ISSUER}",
    ),
    Refusal(
        "the wrong action for web identities",
        ROLE,
        lambda w: _role(_web_identity(action="sts:AssumeRole")),
        "trust policy: a Federated OIDC principal needs the action sts:AssumeRoleWithWebIdentity",
    ),
    Refusal(
        "an action that STS does not have",
        ROLE,
        lambda w: _role(policy(Effect="Allow", Principal={"Service": "ec2.amazonaws.com"}, Action="s3:GetObject")),
        "UpdateAssumeRolePolicy: MalformedPolicyDocument: Trust Policy statement actions can only be sts:AssumeRole, "
        "sts:AssumeRoleWithSAML,  and sts:AssumeRoleWithWebIdentity",
    ),
    Refusal(
        "a name that is too long",
        ROLE,
        lambda w: _role(trust("ec2.amazonaws.com"), name="r" * 65),
        "CreateRole: RoleName: 65 characters, at most 64",
    ),
    Refusal(
        "a session of half an hour",
        ROLE,
        lambda w: _role(trust("ec2.amazonaws.com"), maxSessionDuration=1800),
        "aws:iam/role:Role: maxSessionDuration: 1800 seconds is not within 3600-43200",
    ),
]

_LONG = [f"arn:aws:s3:::bucket-{index}/*" for index in range(300)]
POLICIES = [
    Refusal(
        "a managed policy that is too long",
        POLICY,
        lambda w: {"policy": policy(Effect="Allow", Action="s3:GetObject", Resource=_LONG)},
        "aws:iam/policy:Policy: policy: 8384 characters without white space; at most 6144",
    ),
    Refusal(
        "a principal in an identity policy",
        ROLE_POLICY,
        lambda w: {
            "role": w.id("role"),
            "policy": policy(Effect="Allow", Action="s3:GetObject", Resource="*", Principal={"AWS": _ACCOUNT}),
        },
        "aws:iam/rolePolicy:RolePolicy: policy.Statement[0].Principal: not allowed in an identity policy",
    ),
    Refusal(
        "an action without its service",
        ROLE_POLICY,
        lambda w: {"role": w.id("role"), "policy": policy(Effect="Allow", Action="GetObject", Resource="*")},
        "PutRolePolicy: MalformedPolicyDocument: Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.",
    ),
    Refusal(
        "a policy of an unknown role",
        ROLE_POLICY,
        lambda w: {"role": "nobody", "policy": policy(Effect="Allow", Action="s3:GetObject", Resource="*")},
        "role policy bad-0000000: IAM role nobody does not exist",
    ),
    Refusal(
        "a managed policy that AWS does not have",
        ATTACHMENT,
        lambda w: {"role": w.id("role"), "policyArn": f"{MANAGED}AmazonEKSWorkerNodesPolicy"},
        "AttachRolePolicy: NoSuchEntity: "
        "Policy arn:aws:iam::aws:policy/AmazonEKSWorkerNodesPolicy does not exist or is not attachable.",
    ),
    Refusal(
        "an issuer without TLS",
        OIDC,
        lambda w: {"url": "http://example.com", "clientIdLists": ["sts.amazonaws.com"]},
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider: url: 'http://example.com' does not begin with https://",
    ),
]

KEYS = [
    Refusal(
        "a key that nobody could manage",
        KEY,
        lambda w: {
            "policy": policy(
                Effect="Allow", Principal={"Service": "logs.us-west-2.amazonaws.com"}, Action="kms:*", Resource="*"
            )
        },
        "KMS key policy: it lets no principal of account 123456789012 change it (kms:PutKeyPolicy); "
        "nobody could manage the key",
    ),
    Refusal(
        "a key policy for a role that does not exist",
        KEY,
        lambda w: {
            "policy": policy(
                Effect="Allow", Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"}, Action="kms:*", Resource="*"
            )
        },
        "KMS key policy: principal arn:aws:iam::123456789012:role/nobody does not exist",
    ),
    Refusal(
        "a deletion window of three days",
        KEY,
        lambda w: {"deletionWindowInDays": 3},
        "aws:kms/key:Key: deletionWindowInDays: 3 days is not within 7-30",
    ),
    Refusal(
        "an alias without its prefix",
        ALIAS,
        lambda w: {"name": "models", "targetKeyId": w.id("key")},
        "aws:kms/alias:Alias: name: 'models' does not begin with alias/, or with the reserved alias/aws/",
    ),
    Refusal(
        "an alias of an unknown key",
        ALIAS,
        lambda w: {"name": "alias/x", "targetKeyId": "00000000-0000-0000-0000-000000000000"},
        "alias alias/x: KMS key 00000000-0000-0000-0000-000000000000 does not exist or is pending deletion",
    ),
    Refusal(
        "a retention that CloudWatch does not have",
        LOG_GROUP,
        lambda w: {"retentionInDays": 33},
        "aws:cloudwatch/logGroup:LogGroup: retentionInDays: 33 is not one of 0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, "
        "365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653",
    ),
    Refusal(
        "a key that CloudWatch may not use",
        LOG_GROUP,
        lambda w: {"kmsKeyId": w.arn("key")},
        "log group bad-0000000: the policy of arn:aws:kms:us-west-2:123456789012:key/{key} does not let "
        "logs.us-west-2.amazonaws.com use the key",
    ),
    Refusal(
        "a log group name with a space",
        LOG_GROUP,
        lambda w: {"name": "a b"},
        r"CreateLogGroup: logGroupName: 'a b' does not match [\.\-_/#A-Za-z0-9]+",
    ),
]

REFUSALS = [*ROLES, *POLICIES, *KEYS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)


def test_a_role_with_a_refused_trust_policy_is_not_left_behind(world: World) -> None:
    names = [role["RoleName"] for role in world.clients("iam").list_roles()["Roles"]]
    assert sorted(names) == sorted([world.id("role"), world.made["spot"].outputs["name"]])
