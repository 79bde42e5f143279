"""What a stack may cost, and who is told: `triton-eks:cost`."""

from typing import Annotated

from pydantic import Field

from spec.settings.fields import EmailAddress, TopicArn, between
from spec.settings.section import Section


class CostLimits(Section):
    """A budget and an alarm for what is unusual. Absent: neither.

    `monthly_usd` is the budget: somebody is told at 80 % of it, at all of it, and when the month is forecast to end above
    it. `anomaly_usd`: what one unusual cost has to come to before somebody is told; None: a tenth of a month's budget.
    `emails` and `topic_arn`: who is told; at least one of both. Costs are found by the tags `project` and `environment`,
    which have to be activated as cost allocation tags in the account that pays (docs/cost.md).
    """

    monthly_usd: Annotated[int, between(1, 10_000_000, "US dollars a month")] = Field(
        description="the budget in US dollars a month, like 5000"
    )
    anomaly_usd: Annotated[int, between(1, 1_000_000, "US dollars")] | None = None
    emails: tuple[EmailAddress, ...] = ()
    topic_arn: TopicArn | None = None
