"""The Jobs that build TensorRT plans: their identity, their permissions, and their settings in a stack file."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest

from infra.serving.plan_builder import PlanBuilder
from spec.versions import PROJECT
from tests.infra.access import ISSUER, access
from tests.paths import ROOT
from tests.spec.stack_config import DIGEST, ECR, complaints, settings
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from twin.aws.base.clients import Clients

IMAGE = f"{ECR}/modelctl@{DIGEST}"
BUCKET, KEY = "arn:aws:s3:::models", "arn:aws:kms:us-west-2:123456789012:key/k"


@pytest.fixture(scope="module")
def made() -> Recording:
    def program() -> None:
        provider = k8s.Provider("kubernetes", kubeconfig="{}")
        bucket: Any = SimpleNamespace(arn=pulumi.Output.from_input(BUCKET), key_arn=pulumi.Output.from_input(KEY))
        issuer = aws.iam.OpenIdConnectProvider("oidc", url=f"https://{ISSUER}", client_id_lists=["sts.amazonaws.com"])
        PlanBuilder("plan-builder", access(provider=provider), bucket, pulumi.ResourceOptions(depends_on=[issuer]))

    with fresh_account(), contextlib.chdir(ROOT):
        return run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=Clients("us-west-2"))


def test_it_reads_releases_and_writes_beside_them(made: Recording) -> None:
    policy = json.loads(made.one("aws:iam/rolePolicy:RolePolicy").checked["policy"])
    assert [(one["Action"], one["Resource"], one.get("Condition")) for one in policy["Statement"]] == [
        (["s3:ListBucket"], [BUCKET], None),
        (["s3:GetObject"], [f"{BUCKET}/releases/*"], None),
        (["s3:PutObject"], [f"{BUCKET}/plans/*"], None),
        (
            ["kms:Decrypt", "kms:GenerateDataKey"],
            [KEY],
            {"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}},
        ),
    ]


def test_its_service_account_alone_takes_the_role(made: Recording) -> None:
    role = made.one("aws:iam/role:Role")
    account = made.one("kubernetes:core/v1:ServiceAccount").checked
    assert '"system:serviceaccount:triton:plan-builder"' in role.checked["assumeRolePolicy"]
    assert (account["metadata"]["namespace"], account["metadata"]["name"]) == ("triton", "plan-builder")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].startswith("arn:aws:iam::")
    assert account["automountServiceAccountToken"] is False
    assert role.checked["path"] == "/triton-eks/staging/"


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        ({}, "models.planBuilder.image: is missing; "),
        ({"image": f"{ECR}/modelctl:1.0"}, "models.planBuilder.image: '"),
        ({"image": IMAGE, "images": IMAGE}, "models.planBuilder.images: unknown key; did you mean 'image'?"),
        (7, "models.planBuilder: 7 "),
    ],
)
def test_what_it_is_not_is_told(builder: Any, said: str) -> None:
    (line,) = complaints({"models.planBuilder": builder})
    assert line.startswith(said)


@pytest.mark.parametrize("access", ["s3", "local"])
def test_it_goes_with_every_way_to_read_models(access: str) -> None:
    fetcher = {"models.fetcher": {"image": IMAGE}} if access == "local" else {}
    builder = settings({"models.access": access, "models.planBuilder": {"image": IMAGE}, **fetcher}).models.plan_builder
    assert builder is not None
    assert builder.image == IMAGE
    assert settings().models.plan_builder is None
