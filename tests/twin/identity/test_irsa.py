import base64
import json
from typing import Any

import pytest

from twin.identity.irsa import Claims, IdentityRefused, Provider, check_trust, claims

HOST = "oidc.eks.us-west-2.amazonaws.com/id/ABC"
ARN = f"arn:aws:iam::123456789012:oidc-provider/{HOST}"
ROLE = "arn:aws:iam::123456789012:role/triton-models"
SUBJECT = "system:serviceaccount:triton:triton"
CLAIMS = Claims(f"https://{HOST}", SUBJECT, ("sts.amazonaws.com",))
PROVIDERS = [Provider(ARN, ("sts.amazonaws.com",))]


def statement(**changes: Any) -> dict[str, Any]:
    base = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": ARN},
        "Condition": {"StringEquals": {f"{HOST}:sub": SUBJECT, f"{HOST}:aud": "sts.amazonaws.com"}},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def sub(operator: str, value: Any) -> dict[str, Any]:
    return {"Condition": {operator: {f"{HOST}:sub": value}}}


def check(*statements: dict[str, Any], presented: Claims = CLAIMS, providers: list[Provider] = PROVIDERS) -> None:
    check_trust({"Version": "2012-10-17", "Statement": list(statements)}, presented, providers, ROLE)


@pytest.mark.parametrize(
    "trusting",
    [
        statement(),
        statement(Action=["sts:TagSession", "sts:AssumeRoleWithWebIdentity"]),
        statement(Action="sts:*"),
        statement(Action="STS:assumerolewithwebidentity"),
        statement(**sub("StringNotEquals", "system:serviceaccount:a:b")),
        statement(Principal={"Federated": ["arn:aws:iam::1:oidc-provider/x", ARN]}),
        statement(Condition=None),
        statement(**sub("StringEquals", ["system:serviceaccount:a:b", SUBJECT])),
        statement(**sub("StringLike", "system:serviceaccount:triton:*")),
        statement(**sub("StringLike", "system:serviceaccount:triton:trito?")),
    ],
)
def test_what_sts_accepts_is_accepted(trusting: dict[str, Any]) -> None:
    check(trusting)


@pytest.mark.parametrize(
    ("refusing", "why"),
    [
        (statement(**sub("StringEquals", "system:serviceaccount:triton:other")), "wants system:serviceaccount:triton:other"),
        (statement(**sub("StringEquals", "system:serviceaccount:triton:*")), "wants system:serviceaccount:triton:*"),
        (statement(**sub("StringEquals", SUBJECT.upper())), "the token has system:serviceaccount:triton:triton"),
        (statement(**sub("StringLike", "system:serviceaccount:triton")), "StringLike"),
        (statement(**sub("StringLike", "system:serviceaccount:[t]riton:triton")), "StringLike"),
        (statement(Condition={"StringEquals": {f"{HOST}:aud": "other"}}), "aud wants other"),
        (
            statement(Condition={"StringEquals": {"elsewhere:sub": SUBJECT}}),
            "elsewhere:sub: the token has none",
        ),
        (statement(Action="sts:AssumeRole"), "its action is sts:AssumeRole"),
        (statement(Principal={"Service": "ec2.amazonaws.com"}), "its federated principal is absent"),
        (statement(Principal={"Federated": ARN + "D"}), f"is {ARN}D, not {ARN}"),
    ],
)
def test_what_sts_refuses_is_refused_with_the_condition_that_fails(refusing: dict[str, Any], why: str) -> None:
    with pytest.raises(IdentityRefused) as refused:
        check(refusing)
    assert f"the trust policy of {ROLE} does not let {SUBJECT} assume it: statement 0: " in str(refused.value)
    assert why in str(refused.value)


def test_one_statement_that_allows_is_enough() -> None:
    check(statement(Action="sts:AssumeRole"), statement())


def test_a_denial_wins() -> None:
    with pytest.raises(IdentityRefused, match=f"statement 1 .* denies {SUBJECT}"):
        check(statement(), statement(Effect="Deny"))


def test_a_denial_of_others_does_not_matter() -> None:
    check(statement(), statement(Effect="Deny", **sub("StringEquals", "system:serviceaccount:a:b")))


def test_an_empty_policy_trusts_nobody() -> None:
    with pytest.raises(IdentityRefused, match="it has no statement that allows anything"):
        check()


def test_an_operator_that_is_not_understood_is_never_taken_as_true() -> None:
    with pytest.raises(IdentityRefused, match="the operator NumericEquals is not evaluated here"):
        check(statement(**sub("NumericEquals", "1")))


def test_iam_must_know_the_clusters_issuer() -> None:
    with pytest.raises(IdentityRefused, match="no OIDC provider for the cluster's issuer"):
        check(statement(), providers=[Provider(ARN + "D", ("sts.amazonaws.com",))])


def test_the_provider_must_accept_the_audience() -> None:
    with pytest.raises(IdentityRefused, match="is not a client ID"):
        check(statement(), providers=[Provider(ARN, ("other",))])


@pytest.mark.parametrize("audience", ["sts.amazonaws.com", ["sts.amazonaws.com"]])
def test_a_tokens_claims_are_read(audience: Any) -> None:
    payload = json.dumps({"iss": f"https://{HOST}", "sub": SUBJECT, "aud": audience}).encode()
    token = "header." + base64.urlsafe_b64encode(payload).decode().rstrip("=") + ".signature"
    assert claims(token) == CLAIMS
