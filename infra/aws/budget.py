"""What a stack may cost: a budget, and an alarm for what is unusual."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

_TOLD_AT_PERCENT = 80
"""Of the budget: early enough to do something about it in the same month."""
_FULL_PERCENT = 100
_ANOMALY_SHARE = 10
"""One part in so many of a month's budget is worth a message, unless the stack says otherwise."""


@dataclass(frozen=True)
class CostGuardArgs:
    name: str
    """Of budget, monitor and subscription: unique in the account that pays."""
    monthly_usd: int
    anomaly_usd: int | None
    """What one unusual cost comes to before somebody is told; None: a part of the budget."""
    emails: Sequence[str]
    topic_arn: str | None
    cost_tags: Mapping[str, str]
    """At least two tags that only this stack's resources have together: by them the budget finds costs."""
    monitored_tag: tuple[str, str]
    """The one tag, key and value, by which the monitor finds costs: AWS takes one."""
    tags: Mapping[str, str]


class CostGuard(pulumi.ComponentResource):
    """A monthly budget and an anomaly monitor over the costs that carry the stack's tags.

    Both see nothing until the tags are cost allocation tags of the account that pays. Budgets and Cost Explorer are global:
    the region of the stack does not matter.
    """

    def __init__(self, name: str, args: CostGuardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:cost:CostGuard", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        topics = [args.topic_arn] if args.topic_arn is not None else []
        aws.budgets.Budget(
            f"{name}-budget",
            name=args.name,
            budget_type="COST",
            limit_amount=str(args.monthly_usd),
            limit_unit="USD",
            time_unit="MONTHLY",
            # Not `cost_filters`: of two tags there, either is enough.
            filter_expression=_budget_filter(args.cost_tags),
            metrics="UnblendedCost",
            notifications=[
                aws.budgets.BudgetNotificationArgs(
                    comparison_operator="GREATER_THAN",
                    notification_type=kind,
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    subscriber_email_addresses=list(args.emails),
                    subscriber_sns_topic_arns=topics,
                )
                for kind, percent in (
                    ("ACTUAL", _TOLD_AT_PERCENT),
                    ("ACTUAL", _FULL_PERCENT),
                    ("FORECASTED", _FULL_PERCENT),
                )
            ],
            tags={**args.tags, "Name": args.name},
            opts=child,
        )
        monitor = aws.costexplorer.AnomalyMonitor(
            f"{name}-anomalies",
            name=args.name,
            # By tag and not by service: an account has room for one monitor of all its services.
            monitor_type="CUSTOM",
            monitor_specification=_monitored(*args.monitored_tag),
            tags={**args.tags, "Name": args.name},
            opts=child,
        )
        least = args.anomaly_usd if args.anomaly_usd is not None else max(1, args.monthly_usd // _ANOMALY_SHARE)
        # Cost Explorer sends e-mails once a day, and at once to topics only: two subscriptions where there are both.
        if args.emails:
            subscribers = [_subscriber("EMAIL", address) for address in args.emails]
            _subscription(f"{name}-anomaly-emails", f"{args.name}-emails", "DAILY", subscribers, monitor, least, args, child)
        if args.topic_arn is not None:
            subscribers = [_subscriber("SNS", args.topic_arn)]
            _subscription(
                f"{name}-anomaly-topic", f"{args.name}-topic", "IMMEDIATE", subscribers, monitor, least, args, child
            )
        self.register_outputs({})


def _budget_filter(cost_tags: Mapping[str, str]) -> aws.budgets.BudgetFilterExpressionArgs:
    """Costs that have all of the tags."""
    return aws.budgets.BudgetFilterExpressionArgs(
        ands=[
            aws.budgets.BudgetFilterExpressionAndArgs(
                tags=aws.budgets.BudgetFilterExpressionAndTagsArgs(key=key, match_options=["EQUALS"], values=[value])
            )
            for key, value in sorted(cost_tags.items())
        ]
    )


def _monitored(key: str, value: str) -> str:
    """Costs with a tag, as Cost Explorer's Expression.

    With every member, as AWS gives it back: the provider compares the texts, and a difference replaces the monitor.
    """
    absent = dict.fromkeys(("And", "CostCategories", "Dimensions", "Not", "Or"))
    return json.dumps({**absent, "Tags": {"Key": key, "MatchOptions": None, "Values": [value]}}, sort_keys=True)


def _subscriber(kind: str, address: str) -> aws.costexplorer.AnomalySubscriptionSubscriberArgs:
    return aws.costexplorer.AnomalySubscriptionSubscriberArgs(type=kind, address=address)


def _subscription(
    name: str,
    physical_name: str,
    frequency: str,
    subscribers: list[aws.costexplorer.AnomalySubscriptionSubscriberArgs],
    monitor: aws.costexplorer.AnomalyMonitor,
    least_usd: int,
    args: CostGuardArgs,
    opts: pulumi.ResourceOptions,
) -> None:
    aws.costexplorer.AnomalySubscription(
        name,
        name=physical_name,
        frequency=frequency,
        monitor_arn_lists=[monitor.arn],
        subscribers=subscribers,
        threshold_expression=aws.costexplorer.AnomalySubscriptionThresholdExpressionArgs(
            dimension=aws.costexplorer.AnomalySubscriptionThresholdExpressionDimensionArgs(
                key="ANOMALY_TOTAL_IMPACT_ABSOLUTE", match_options=["GREATER_THAN_OR_EQUAL"], values=[str(least_usd)]
            )
        ),
        tags={**args.tags, "Name": physical_name},
        opts=opts,
    )
