"""The monitoring of a stack: `triton-eks:monitoring`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from spec.charts import KUBE_PROMETHEUS_STACK, OPENCOST, ChartPin
from spec.problem import Problem
from spec.settings import images
from spec.settings.addresses import WebAddress
from spec.settings.fields import AmpWorkspaceId, Name, TopicArn
from spec.settings.kind import between
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Section


class Amp(Section):
    """An Amazon Managed Service for Prometheus workspace in the stack's account and region."""

    workspace_id: AmpWorkspaceId = Field(description="the id of the workspace, like ws-01234567-89ab-cdef-0123-456789abcdef")


class Monitoring(Section):
    """Prometheus, Alertmanager, Grafana and the GPU exporter."""

    guide: ClassVar[str] = "docs/aws.md#monitoring"

    runbooks: WebAddress = Field(description="the URL of docs/runbooks, like https://wiki.example.com/triton/runbooks")
    replicas: Annotated[int, between(1, 3, "replicas")] = Field(description="how many Prometheus there are, like 2")
    retention_days: Annotated[int, between(1, 365, "days")] = Field(description="days that samples are kept, like 15")
    storage_gib: Annotated[int, between(10, 16_384, "GiB")] = Field(description="the volume of each Prometheus, like 50")
    amp: Amp | None = Field(
        default=None,
        description="a workspace of Amazon Managed Service for Prometheus that every sample is sent to as well; without it: "
        "samples end with retentionDays",
    )
    alert_topic_arn: TopicArn | None = Field(
        default=None, description="the SNS topic that alerts go to; without it: they are seen only in Alertmanager"
    )
    parity_image: Name | None = Field(
        default=None,
        description="the image of modelctl by digest, like <mirror>/modelctl@sha256:<64 hex digits>, which compares what "
        "Triton's pods serve; without it: nothing does",
    )
    open_cost: bool = Field(
        default=False,
        description="whether OpenCost says what each namespace and workload costs, for which its pods have to reach AWS's "
        "public price list",
    )

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the charts of the monitoring stack and, if enabled, of OpenCost."""
        return (KUBE_PROMETHEUS_STACK, OPENCOST) if self.open_cost else (KUBE_PROMETHEUS_STACK,)

    @rule
    def _parity_image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the modelctl image by digest."""
        if self.parity_image is not None:
            yield from images.of_ours(at, "parityImage", self.parity_image, "modelctl", "modelctl")

    @warning
    def _alerts_reach_somebody(self, at: Place) -> Iterator[Problem]:
        """Warn if alerts have no recipient. In prod this is an invariant."""
        if self.alert_topic_arn is None and at.environment != "prod":
            yield at.problem(
                "alertTopicArn", "is not given, so that alerts are seen only by who looks; give the ARN of an SNS topic"
            )
