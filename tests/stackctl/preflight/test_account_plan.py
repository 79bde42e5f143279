"""The account's plan, from the Free Tier API. moto lacks this service, so botocore's Stubber answers with its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from botocore.stub import Stubber

from stackctl.account.guard import Caller
from stackctl.preflight.checks import account_plan
from stackctl.preflight.checks.check import Check, Status, Subject, findings

UPGRADE = (
    "upgrade the account: Billing and Cost Management, Upgrade plan, or `aws freetier upgrade-account-plan "
    "--account-plan-type PAID --region us-east-1`; credits stay until they expire"
)


def of_plan(plan: str) -> dict[str, str]:
    return {"accountId": "123456789012", "accountPlanType": plan, "accountPlanStatus": "ACTIVE"}


def test_the_free_plan_fails_with_the_command_that_ends_it(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    answers(one, "freetier", "us-east-1").add_response("get_account_plan_state", of_plan("FREE"), {})
    (finding,) = account_plan.check(one)
    assert (finding.status, finding.remedy) == (Status.FAIL, UPGRADE)
    assert finding.message.startswith("the account is on AWS's Free plan; ")


def test_the_paid_plan_is_ok(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    answers(one, "freetier", "us-east-1").add_response("get_account_plan_state", of_plan("PAID"), {})
    (finding,) = account_plan.check(one)
    assert (finding.status, finding.message) == (Status.OK, "the account is on the Paid plan")


def test_an_account_from_before_the_plans_has_none(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    stubber = answers(one, "freetier", "us-east-1")
    stubber.add_client_error("get_account_plan_state", "ResourceNotFoundException", expected_params={})
    (finding,) = account_plan.check(one)
    assert (finding.status, finding.message.partition(",")[0]) == (Status.OK, "the account has no plan")


def test_a_missing_permission_leaves_the_plan_unknown(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    answers(one, "freetier", "us-east-1").add_client_error("get_account_plan_state", "AccessDeniedException")
    (finding,) = findings(Check("account plan", account_plan.check), one)
    assert (finding.status, finding.message) == (Status.UNKNOWN, "needs freetier:GetAccountPlanState")


@pytest.mark.parametrize("partition", ["aws-cn", "aws-us-gov"])
def test_other_partitions_have_no_plans_and_are_not_asked(subject: Callable[..., Subject], partition: str) -> None:
    one = replace(subject(), caller=Caller("123456789012", f"arn:{partition}:iam::123456789012:user/jane"))
    (finding,) = account_plan.check(one)
    assert (finding.status, finding.message) == (Status.OK, f"the partition {partition} has no account plans")
