"""IAM policy documents: the trusted principals, and their conditions."""

import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from infra.aws.account import Account
from infra.aws.identity import known_role_arn
from infra.aws.storage import reader_policy
from spec.iam_policy import allow, document, pod_identity_trust, service_account_trust, service_trust
from tests.infra.access import stack

CALLER = "arn:aws:sts::123456789012:assumed-role/deployer/session"
ACCOUNT = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn=CALLER)
CLUSTER = "arn:aws:eks:us-west-2:123456789012:cluster/triton-prod"
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"
PROVIDER = f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"


def _statements(text: str) -> list[dict[str, Any]]:
    read = json.loads(text)
    assert read["Version"] == "2012-10-17"
    assert read.keys() == {"Version", "Statement"}
    return list(read["Statement"])


def test_a_statement_has_no_sid_and_no_condition_unless_asked_for() -> None:
    assert allow(["s3:GetObject"], ["arn:aws:s3:::models/*"]) == {
        "Effect": "Allow",
        "Action": ["s3:GetObject"],
        "Resource": ["arn:aws:s3:::models/*"],
    }


def test_a_statement_carries_its_sid_and_its_condition() -> None:
    condition = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert allow(("kms:Decrypt", "kms:Encrypt"), ("*",), sid="Keys", condition=condition) == {
        "Effect": "Allow",
        "Action": ["kms:Decrypt", "kms:Encrypt"],
        "Resource": ["*"],
        "Sid": "Keys",
        "Condition": condition,
    }


def test_a_document_keeps_the_order_of_its_statements_and_sorts_their_keys() -> None:
    assert document(allow(["b:B"], ["2"]), allow(["a:A"], ["1"])) == (
        '{"Statement": [{"Action": ["b:B"], "Effect": "Allow", "Resource": ["2"]}, '
        '{"Action": ["a:A"], "Effect": "Allow", "Resource": ["1"]}], "Version": "2012-10-17"}'
    )


def test_trust_in_ec2_is_unconditional_because_ec2_says_no_source() -> None:
    assert _statements(service_trust("ec2.amazonaws.com")) == [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ]


def test_trust_in_a_service_is_bound_to_the_account_and_the_source_together() -> None:
    (statement,) = _statements(service_trust("eks.amazonaws.com", source_account=ACCOUNT.id, source_arn=CLUSTER))
    assert statement["Principal"] == {"Service": "eks.amazonaws.com"}
    assert statement["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "123456789012"},
        "ArnLike": {"aws:SourceArn": CLUSTER},
    }


@pytest.mark.parametrize(
    ("bound", "condition"),
    [
        ({"source_account": ACCOUNT.id}, {"StringEquals": {"aws:SourceAccount": "123456789012"}}),
        ({"source_arn": CLUSTER}, {"ArnLike": {"aws:SourceArn": CLUSTER}}),
    ],
    ids=str,
)
def test_trust_in_a_service_may_be_bound_to_one_of_them(bound: dict[str, str], condition: dict[str, Any]) -> None:
    (statement,) = _statements(service_trust("vpc-flow-logs.amazonaws.com", **bound))
    assert statement["Condition"] == condition


def test_a_web_identity_must_be_of_one_service_account_and_for_sts() -> None:
    """A condition on `sub` only would also accept a token that was issued for another audience."""
    assert _statements(service_account_trust(PROVIDER, ISSUER, "triton", "server")) == [
        {
            "Effect": "Allow",
            "Principal": {"Federated": PROVIDER},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    f"{ISSUER}:sub": "system:serviceaccount:triton:server",
                    f"{ISSUER}:aud": "sts.amazonaws.com",
                }
            },
        }
    ]


def test_a_pod_identity_must_be_of_one_service_account_of_one_cluster() -> None:
    assert _statements(pod_identity_trust(CLUSTER, "kube-system", "ebs-csi-controller-sa")) == [
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {
                "StringEquals": {
                    "aws:RequestTag/eks-cluster-arn": CLUSTER,
                    "aws:RequestTag/kubernetes-namespace": "kube-system",
                    "aws:RequestTag/kubernetes-service-account": "ebs-csi-controller-sa",
                }
            },
        }
    ]


@pulumi.runtime.test
def test_triton_may_look_for_every_model_read_releases_and_decrypt_through_s3_alone() -> pulumi.Output[None]:
    """Listing has no prefix condition: Triton calls HeadBucket, which has no prefix (docs/facts/triton-s3.md#rights)."""
    bucket, key = "arn:aws:s3:::triton-prod-models", "arn:aws:kms:us-west-2:123456789012:key/1"

    def check(text: str) -> None:
        assert _statements(text) == [
            {"Sid": "FindModels", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket]},
            {"Sid": "ReadReleases", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{bucket}/releases/*"]},
            {
                "Sid": "DecryptThroughS3",
                "Effect": "Allow",
                "Action": ["kms:Decrypt"],
                "Resource": [key],
                "Condition": {"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}},
            },
        ]

    return reader_policy(ACCOUNT, bucket, key, ("releases/",)).apply(check)


@pulumi.runtime.test
def test_each_prefix_of_a_reader_is_one_resource() -> pulumi.Output[None]:
    def check(text: str) -> None:
        (statement,) = [s for s in _statements(text) if s["Sid"] == "ReadReleases"]
        assert statement["Resource"] == ["arn:aws:s3:::b/releases/*", "arn:aws:s3:::b/live/*"]

    return reader_policy(ACCOUNT, "arn:aws:s3:::b", "key", ("releases/", "live/")).apply(check)


@pytest.mark.parametrize("partition", ["aws", "aws-us-gov"])
def test_arns_are_of_the_accounts_partition(partition: str) -> None:
    account = replace(ACCOUNT, partition=partition)
    assert account.arn("eks", "cluster/c") == f"arn:{partition}:eks:us-west-2:123456789012:cluster/c"
    assert (
        account.managed_policy("AmazonEKSWorkerNodePolicy") == f"arn:{partition}:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    )
    of = stack(account=account)
    assert known_role_arn(of, "reader") == f"arn:{partition}:iam::123456789012:role/triton-staging-us-west-2-reader"
