"""Check for AWS's Paid plan: on the Free plan EC2 starts none of a stack's instance types."""

from __future__ import annotations

from collections.abc import Iterator

from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok

REGION = "us-east-1"
"""The Free Tier API has one endpoint for all regions."""
UPGRADE = (
    "upgrade the account: Billing and Cost Management, Upgrade plan, or "
    f"`aws freetier upgrade-account-plan --account-plan-type PAID --region {REGION}`; credits stay until they expire"
)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield whether the account's plan lets EC2 start every instance type.

    Accounts older than the plans (15 July 2025) have no plan.
    """
    if subject.partition != "aws":
        yield ok(f"the partition {subject.partition} has no account plans")
        return
    client = subject.readers("freetier", REGION)
    plan = or_none(client.get_account_plan_state, "ResourceNotFoundException")
    if plan is None:
        yield ok("the account has no plan, as accounts from before 15 July 2025; EC2 starts every type")
    elif plan["accountPlanType"] == "FREE":
        yield fail(
            "the account is on AWS's Free plan; EC2 starts only types of the free tier, so that no node of a stack comes up",
            UPGRADE,
        )
    else:
        yield ok(f"the account is on the {plan['accountPlanType'].capitalize()} plan")
