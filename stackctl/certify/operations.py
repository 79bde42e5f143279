"""List the AWS operations that the checks may call, each with its IAM action. They only read."""

from __future__ import annotations

from stackctl.account.read_only import Operations
from stackctl.cost.command import PRICES
from stackctl.orphans.operations import OPERATIONS as OF_ORPHANS
from stackctl.preflight.operations import OPERATIONS as OF_PREFLIGHT

_OWN: Operations = {
    "accessanalyzer": {"ValidatePolicy": "access-analyzer:ValidatePolicy"},
    "budgets": {"DescribeBudget": "budgets:ViewBudget"},
    "logs": {"DescribeLogGroups": "logs:DescribeLogGroups", "DescribeLogStreams": "logs:DescribeLogStreams"},
    "iam": {
        "GetPolicy": "iam:GetPolicy",
        "GetPolicyVersion": "iam:GetPolicyVersion",
        "GetRolePolicy": "iam:GetRolePolicy",
        "ListAttachedRolePolicies": "iam:ListAttachedRolePolicies",
        "ListRolePolicies": "iam:ListRolePolicies",
        "SimulatePrincipalPolicy": "iam:SimulatePrincipalPolicy",
    },
}


def _together(*lists: Operations) -> Operations:
    services = sorted({service for operations in lists for service in operations})
    return {
        service: {name: action for operations in lists for name, action in operations.get(service, {}).items()}
        for service in services
    }


OPERATIONS = _together(OF_PREFLIGHT, OF_ORPHANS, PRICES, _OWN)
