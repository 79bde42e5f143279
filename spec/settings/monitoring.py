"""The monitoring of a stack: Prometheus, Alertmanager, Grafana and the GPUs' exporter."""

from typing import Annotated

from pydantic import Field

from spec.settings.fields import AmpWorkspaceId, Name, TopicArn, WebAddress, between
from spec.settings.section import Section


class Amp(Section):
    """A workspace of Amazon Managed Service for Prometheus, of the stack's own account and region."""

    workspace_id: AmpWorkspaceId = Field(description="the id of the workspace, like ws-01234567-89ab-cdef-0123-456789abcdef")


class Monitoring(Section):
    """What watches the platform. Absent: nothing.

    `runbooks`: where people on call read docs/runbooks; every alert links to its page there. `replicas`: of Prometheus and
    of Alertmanager; each Prometheus scrapes everything. `storage_gib`: the volume of each Prometheus, which `retention_days`
    of samples have to fit. `amp`: also send every sample there. `alert_topic_arn`: where alerts go; None: nowhere.
    `parity_image`: of modelctl, by digest, which compares what Triton's pods serve; None: nothing does. `open_cost`: what
    each namespace and workload costs (OpenCost), for which its pods have to reach AWS's public price list.
    """

    runbooks: WebAddress = Field(description="the URL of docs/runbooks, like https://wiki.example.com/triton/runbooks")
    replicas: Annotated[int, between(1, 3, "replicas")] = Field(description="how many Prometheus there are, like 2")
    retention_days: Annotated[int, between(1, 365, "days")] = Field(description="days that samples are kept, like 15")
    storage_gib: Annotated[int, between(10, 16_384, "GiB")] = Field(description="the volume of each Prometheus, like 50")
    amp: Amp | None = None
    alert_topic_arn: TopicArn | None = None
    parity_image: Name | None = None
    open_cost: bool = False
