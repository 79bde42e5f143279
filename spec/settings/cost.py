"""What a stack may cost, and who is told: `triton-eks:cost`."""

from typing import Annotated, ClassVar

from pydantic import Field

from spec.settings.fields import EmailAddress, TopicArn, between
from spec.settings.section import Section


class CostLimits(Section):
    """A budget and an alarm for unusual costs.

    Costs are found by the tags `project` and `environment`, which have to be activated as cost allocation tags in the
    account that pays.
    """

    guide: ClassVar[str] = "docs/cost.md"

    monthly_usd: Annotated[int, between(1, 10_000_000, "US dollars a month")] = Field(
        description="the budget in US dollars a month, like 5000"
    )
    anomaly_usd: Annotated[int, between(1, 1_000_000, "US dollars")] | None = Field(
        default=None,
        description="the US dollars that one unusual cost has to come to before somebody is told; without it: a tenth of "
        "monthlyUsd",
    )
    emails: tuple[EmailAddress, ...] = Field(
        default=(),
        description="the e-mail addresses that are told, at most 10; without it: topicArn alone, which then is required",
    )
    topic_arn: TopicArn | None = Field(
        default=None, description="the SNS topic that is told; without it: emails alone, which then are required"
    )
