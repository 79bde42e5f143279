"""The account guard (moto's STS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stackctl.account.guard import Caller, WrongAccount, caller, require_account
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.preflight.checks import account as check
from stackctl.preflight.checks.check import Status, Subject
from tests.spec.stack_config import REMOVED, settings


def test_the_account_that_the_stack_names_is_right(subject: Callable[..., Subject]) -> None:
    (finding,) = check.check(subject())
    assert finding.status is Status.OK
    assert finding.message.startswith("123456789012, as aws:allowedAccountIds says; arn:aws:sts::123456789012:")


def test_another_account_fails_and_says_which_is_which(subject: Callable[..., Subject]) -> None:
    other = {"aws:allowedAccountIds": ["999999999999"], "cluster.adminRoleArns": ["arn:aws:iam::999999999999:role/admin"]}
    (finding,) = check.check(subject(other))
    assert finding.status is Status.FAIL
    assert finding.message.startswith("the credentials are for account 123456789012 (arn:")
    assert finding.message.endswith("stacks/Pulumi.staging.yaml is for 999999999999 (aws:allowedAccountIds)")
    assert finding.remedy == "log in to that one"


def test_a_stack_that_names_no_account_is_warned_of(subject: Callable[..., Subject]) -> None:
    (finding,) = check.check(subject({"aws:allowedAccountIds": REMOVED}))
    assert finding.status is Status.WARN
    assert finding.remedy.endswith('write aws:allowedAccountIds: ["123456789012"] there')


def test_the_root_user_is_warned_of(subject: Callable[..., Subject]) -> None:
    one = replace(subject(), caller=Caller("123456789012", "arn:aws:iam::123456789012:root"))
    (finding,) = check.check(one)
    assert (finding.status, finding.remedy) == (
        Status.WARN,
        "create a user or role with AdministratorAccess, and log in as that",
    )


def test_what_deletes_refuses_a_stack_that_names_no_account() -> None:
    with pytest.raises(WrongAccount, match=r"^stacks/Pulumi\.staging\.yaml names no account, "):
        require_account(
            Caller("123456789012", "arn:aws:iam::123456789012:user/me"), settings({"aws:allowedAccountIds": REMOVED})
        )


def test_without_credentials_there_is_a_sentence(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AwsUnusable, match=r"^there are no AWS credentials: set AWS_PROFILE "):
        caller(Readers("us-west-2", {"sts": {"GetCallerIdentity": "sts:GetCallerIdentity"}}))


def test_a_profile_that_does_not_exist_is_a_sentence(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(AwsUnusable, match=r"^the AWS configuration cannot be used: .*nobody"):
        Readers("us-west-2", {})
