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
        description="true: somebody is told of unusual costs of the project too. Only for an account that pays for itself: "
        "in an organisation AWS lets the management account alone watch costs by tag, and `up` fails in any other",
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

    @rule
    def _a_least_anomaly_is_of_an_alarm(self, at: Place) -> Iterator[Problem]:
        """Refuse anomalyUsd if the alarm for unusual costs is off."""
        if self.anomaly_usd is not None and not self.anomalies:
            yield at.problem(
                "anomalyUsd", "is for unusual costs, which nobody is told of; set anomalies to true, or remove anomalyUsd"
            )

    @rule
    def _anomalies_are_within_the_budget(self, at: Place) -> Iterator[Problem]:
        """Require anomalyUsd of at most the whole budget."""
        if self.anomaly_usd is not None and self.anomaly_usd > self.monthly_usd:
            yield at.problem(
                "anomalyUsd",
                f"{self.anomaly_usd} is more than the whole budget of {self.monthly_usd} a month, told before; "
                f"give 1 to {self.monthly_usd}",
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
