"""Retention of container logs and metrics in CloudWatch: `triton-eks:logs`."""

from typing import ClassVar

from pydantic import Field

from spec.charts import FLUENT_BIT, ChartPin
from spec.settings.fields import LogRetention
from spec.settings.section import Section


class ContainerLogs(Section):
    """The logs of all containers, in one log group."""

    retention_days: LogRetention = Field(description="days that the logs of containers are kept, like 30")


class ContainerInsights(Section):
    """Metrics of nodes, pods and containers in CloudWatch, from the EKS add-on amazon-cloudwatch-observability."""

    retention_days: LogRetention = Field(
        description="days that the events are kept which the metrics are made of, like 7; the metrics stay 15 months"
    )


class Logs(Section):
    """Logs in CloudWatch."""

    guide: ClassVar[str] = "docs/logs.md"

    containers: ContainerLogs = Field(description="what the containers of all pods write")
    container_insights: ContainerInsights | None = Field(
        default=None,
        description="CloudWatch Container Insights, paid by the observation; an agent on each node; without it: none",
    )

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the chart of the log collector."""
        return (FLUENT_BIT,)
