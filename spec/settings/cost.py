"""The monthly budget of a stack and the recipients of its alarms: `triton-eks:cost`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import EmailAddress
from spec.settings.fields import TopicArn
from spec.settings.kind import between
from spec.settings.rule import Place, rule
from spec.settings.section import Section

# The most e-mail addresses that AWS Budgets allows for one notification.
_MOST_EMAILS = 10


class CostLimits(Section):
    """A budget and an optional alarm for unusual costs.

    AWS finds the costs by the tags `project` and `environment`. They have to be activated as cost allocation tags in the
    account that pays.
    """

    guide: ClassVar[str] = "docs/cost.md"

    monthly_usd: Annotated[int, between(1, 10_000_000, "US dollars a month")] = Field(
        description="the budget in US dollars a month, like 5000"
    )
    anomalies: bool = Field(
        default=False,
        description="true: report unusual costs of the project too, from a tenth of monthlyUsd. Only for an account that "
        "pays for itself: in an organisation AWS lets the management account alone watch costs by tag, and `up` fails in "
        "any other",
    )
    emails: tuple[EmailAddress, ...] = Field(
        default=(),
        description="the e-mail addresses that are told, at most 10; without it: topicArn alone, which then is required",
    )
    topic_arn: TopicArn | None = Field(
        default=None, description="the SNS topic that is told; without it: emails alone, which then are required"
    )

    @rule
    def _somebody_is_told(self, at: Place) -> Iterator[Problem]:
        """Require at least one subscriber; at most 10 unique e-mail addresses."""
        if not self.emails and self.topic_arn is None:
            yield at.problem(
                "", "tells nobody; give emails, like [oncall@example.com], or topicArn, the ARN of an SNS topic"
            )
        if len(self.emails) > _MOST_EMAILS:
            yield at.problem(
                "emails", f"{len(self.emails)} addresses are listed; AWS takes up to {_MOST_EMAILS}: use a topicArn"
            )
        alike = [address.casefold() for address in self.emails]
        for index, address in enumerate(alike):
            if address in alike[:index]:
                yield at.problem(f"emails[{index}]", f"{self.emails[index]} is listed twice, in whatever case; remove one")
