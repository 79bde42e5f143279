"""Cost limits of a stack: a budget, and an alarm for unusual costs if the account can have one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.aws.stack import Stack
from spec.names import budget
from spec.settings.cost import CostLimits

_TOLD_AT_PERCENT = 80
"""The share of the budget for the first alarm, early enough to act in the same month."""
_FULL_PERCENT = 100
_COST_TAGS = ("environment", "project")
"""Only this stack's resources have both tags, by which the budget finds costs. A monitor supports one tag."""
_ANOMALY_SHARE = 10
"""An unusual cost of a tenth of the month's budget is reported."""


class CostGuard(pulumi.ComponentResource):
    """A monthly budget over the costs with the stack's tags. Optionally, an anomaly monitor over the project's costs.

    Both see no costs until the tags are cost allocation tags of the account that pays. Budgets and Cost Explorer are global,
    so the stack's region does not matter.
    """

    def __init__(self, name: str, stack: Stack, limits: CostLimits, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:cost:CostGuard", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account_name = budget(stack.cluster_name, stack.region)
        topics = [limits.topic_arn] if limits.topic_arn is not None else []
        aws.budgets.Budget(
            f"{name}-budget",
            name=account_name,
            budget_type="COST",
            limit_amount=str(limits.monthly_usd),
            limit_unit="USD",
            time_unit="MONTHLY",
            # Not `cost_filters`, which match costs with either of two tags.
            filter_expression=_budget_filter({key: stack.tags[key] for key in _COST_TAGS}),
            metrics="UnblendedCost",
            notifications=[
                aws.budgets.BudgetNotificationArgs(
                    comparison_operator="GREATER_THAN",
                    notification_type=kind,
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    subscriber_email_addresses=list(limits.emails),
                    subscriber_sns_topic_arns=topics,
                )
                for kind, percent in (
                    ("ACTUAL", _TOLD_AT_PERCENT),
                    ("ACTUAL", _FULL_PERCENT),
                    ("FORECASTED", _FULL_PERCENT),
                )
            ],
            tags=stack.named(account_name),
            opts=child,
        )
        if limits.anomalies:
            self._anomalies(name, stack, limits, account_name)
        self.register_outputs({})

    def _anomalies(self, name: str, stack: Stack, limits: CostLimits, account_name: str) -> None:
        """Register the monitor and its subscriptions.

        A monitor of a cost allocation tag is possible only in an organisation's management account:
        https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html.
        """
        child = pulumi.ResourceOptions(parent=self)
        topics = [limits.topic_arn] if limits.topic_arn is not None else []
        monitor = aws.costexplorer.AnomalyMonitor(
            f"{name}-anomalies",
            name=account_name,
            # By tag and not by service, because an account can have only one monitor of all its services.
            monitor_type="CUSTOM",
            monitor_specification=_monitored("project", stack.tags["project"]),
            tags=stack.named(account_name),
            opts=child,
        )
        least = max(1, limits.monthly_usd // _ANOMALY_SHARE)
        # Cost Explorer sends e-mails once a day and immediate messages only to topics, so both together need two
        # subscriptions.
        for to, frequency, kind, addresses in (
            ("emails", "DAILY", "EMAIL", list(limits.emails)),
            ("topic", "IMMEDIATE", "SNS", topics),
        ):
            if not addresses:
                continue
            aws.costexplorer.AnomalySubscription(
                f"{name}-anomaly-{to}",
                name=f"{account_name}-{to}",
                frequency=frequency,
                monitor_arn_lists=[monitor.arn],
                subscribers=[
                    aws.costexplorer.AnomalySubscriptionSubscriberArgs(type=kind, address=address) for address in addresses
                ],
                threshold_expression=_costs_at_least(least),
                tags=stack.named(f"{account_name}-{to}"),
                opts=child,
            )


def _budget_filter(cost_tags: Mapping[str, str]) -> aws.budgets.BudgetFilterExpressionArgs:
    """Return the filter for costs that have all of the tags."""
    return aws.budgets.BudgetFilterExpressionArgs(
        ands=[
            aws.budgets.BudgetFilterExpressionAndArgs(
                tags=aws.budgets.BudgetFilterExpressionAndTagsArgs(key=key, match_options=["EQUALS"], values=[value])
            )
            for key, value in sorted(cost_tags.items())
        ]
    )


def _monitored(key: str, value: str) -> str:
    """Return the filter for costs with a tag, as a Cost Explorer Expression.

    It has every member, as AWS returns it, because the provider compares the texts and replaces the monitor if they differ.
    """
    absent = dict.fromkeys(("And", "CostCategories", "Dimensions", "Not", "Or"))
    return json.dumps({**absent, "Tags": {"Key": key, "MatchOptions": None, "Values": [value]}}, sort_keys=True)


def _costs_at_least(usd: int) -> aws.costexplorer.AnomalySubscriptionThresholdExpressionArgs:
    return aws.costexplorer.AnomalySubscriptionThresholdExpressionArgs(
        dimension=aws.costexplorer.AnomalySubscriptionThresholdExpressionDimensionArgs(
            key="ANOMALY_TOTAL_IMPACT_ABSOLUTE", match_options=["GREATER_THAN_OR_EQUAL"], values=[str(usd)]
        )
    )
