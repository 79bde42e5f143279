"""Karpenter: its real controller, with its chart's permissions in the cluster and its role's permissions in AWS."""

from collections.abc import Mapping
from typing import Any

from spec.charts import KARPENTER
from twin.releases.chart import Accounts, Chart, ChartContext, ChartPrograms, GoModule
from twin.releases.scalers import node_scaler

MODULE = GoModule("github.com/aws/karpenter-provider-aws", f"v{KARPENTER.version}")
TEMPLATES = "charts/karpenter"
"""The folder of the chart in the module."""


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.karpenter.program import Karpenter  # only the agent needs it

    return Karpenter(context)


def _installed_by(config: Mapping[str, Any]) -> bool:
    return node_scaler(config) == "karpenter"


CHART = Chart(
    KARPENTER,
    "its real controller, from its Go module, runs as one process, and what it launches joins the cluster as nodes; each of "
    "its calls of AWS is held against the policy of its role",
    MODULE,
    accounts=Accounts(templates=TEMPLATES),
    families=("karpenter",),
    installed_by=_installed_by,
    programs=_programs,
)
