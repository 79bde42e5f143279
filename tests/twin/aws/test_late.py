"""Changes without effect yet: roles, Pod Identity associations, tags and aliases of KMS keys."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.twin.aws.world import (
    ALIAS,
    ATTACHMENT,
    KEY,
    MANAGED,
    NODE_GROUP,
    POD_IDENTITY,
    ROLE,
    World,
    kubernetes,
    network,
    node_group_inputs,
    roles,
    trust,
)
from twin.aws import faults, table
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError
from twin.aws.eks import access
from twin.identity import pod_identity

BY_TAG = {
    "Sid": "Ours",
    "Effect": "Allow",
    "Action": ["kms:CreateAlias", "kms:EnableKeyRotation"],
    "Resource": ["arn:aws:kms:us-west-2:123456789012:key/*", "arn:aws:kms:us-west-2:123456789012:alias/*"],
    "Condition": {"StringEquals": {"aws:ResourceTag/project": "triton-eks"}},
}


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    roles(world)
    kubernetes(world)
    yield world


def late(world: World, value: str) -> None:
    world.clients("ssm").put_parameter(Name=faults.DELAYS, Value=value, Type="String", Overwrite=True)


@pytest.fixture(autouse=True)
def in_time_again(world: World) -> Iterator[None]:
    yield
    world.clients("ssm").delete_parameters(Names=[faults.DELAYS, faults.DEPLOYER])


def test_a_node_group_is_refused_a_role_that_is_not_known_yet(world: World) -> None:
    """The official provider does not retry CreateNodegroup."""
    late(world, "iam=3600")
    with pytest.raises(HandlerError, match=r"the role arn:aws:iam::123456789012:role/node-role-0000000 is not known yet"):
        world.make(NODE_GROUP, "early", **node_group_inputs(world))
    late(world, "iam=0")
    world.make(NODE_GROUP, "in-time", **node_group_inputs(world))


def test_an_association_waits_for_its_role_as_the_provider_does_and_is_late_itself(world: World) -> None:
    late(world, "iam=1, pod-identity=3600")
    role = world.make(ROLE, "pods", assumeRolePolicy=trust("pods.eks.amazonaws.com")).outputs["arn"]
    world.make(POD_IDENTITY, "identity", clusterName="c", namespace="n", serviceAccount="s", roleArn=role)
    assert access.effective_role(world.clients, "c", "n", "s") is None
    assert pod_identity.injected(world.clients, "c", "n", "s") == {}
    late(world, "pod-identity=0")
    assert access.effective_role(world.clients, "c", "n", "s") == role
    assert pod_identity.injected(world.clients, "c", "n", "s") == {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": (
            "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token"
        ),
        "AWS_REGION": "us-west-2",
    }
    assert access.effective_role(world.clients, "c", "n", "another") is None


def test_a_tag_does_not_let_the_deployer_begin_a_key_before_it_has_an_effect(world: World) -> None:
    late(world, "kms=3600")
    world.clients("ssm").put_parameter(Name=faults.DEPLOYER, Value=json.dumps([BY_TAG]), Type="String")
    with pytest.raises(HalfCreated, match="EnableKeyRotation: AccessDeniedException: ") as begun:
        world.make(KEY, "early", enableKeyRotation=True, tags={"project": "triton-eks"})
    assert (begun.value.outputs["enableKeyRotation"], begun.value.outputs.get("arn")) == (True, None)
    late(world, "kms=0")
    key = world.make(KEY, "in-time", enableKeyRotation=True, tags={"project": "triton-eks"}).id
    late(world, "kms=3600")
    with pytest.raises(HandlerError, match="CreateAlias: AccessDeniedException: "):
        world.make(ALIAS, "early-alias", name="alias/x", targetKeyId=key)


def test_a_key_that_was_begun_is_whole_to_a_read(world: World) -> None:
    late(world, "kms=3600")
    world.clients("ssm").put_parameter(Name=faults.DEPLOYER, Value=json.dumps([BY_TAG]), Type="String")
    with pytest.raises(HalfCreated) as begun:
        world.make(KEY, "early", enableKeyRotation=True)
    found = table.handler(KEY).read(world.clients, begun.value.id, dict(begun.value.outputs))
    assert found is not None
    assert (found["keyId"], found["enableKeyRotation"]) == (begun.value.id, False)


def test_what_cannot_be_late_is_said(world: World) -> None:
    late(world, "iam=1,vpc=3")
    with pytest.raises(ValueError, match=r"^/twin/delays: vpc: only iam, kms, pod-identity can be late$"):
        world.make(ATTACHMENT, "x", role=world.id("node-role"), policyArn=f"{MANAGED}AmazonSSMManagedInstanceCore")
        world.make(NODE_GROUP, "y", **node_group_inputs(world))
