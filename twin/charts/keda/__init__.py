"""KEDA: its real operator and metrics server."""

from collections.abc import Mapping
from typing import Any

from spec.charts import KEDA
from twin.identity.irsa import ROLE_ANNOTATION
from twin.releases.chart import Accounts, Chart, ChartContext, ChartPrograms, GoModule
from twin.releases.scalers import scalers


def role_annotation(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the chart's annotation for `podIdentity.aws.irsa`: docs/facts/scaling.md#identity-of-a-trigger."""
    given = ((values.get("podIdentity") or {}).get("aws") or {}).get("irsa") or {}
    return {ROLE_ANNOTATION: str(given["roleArn"])} if given.get("enabled") and given.get("roleArn") else {}


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.keda.programs import Keda  # only the agent needs it, and its import is slow

    return Keda(context)


CHART = Chart(
    KEDA,
    "its real operator and metrics server, from its Go module, run as processes; its webhooks do not",
    GoModule("github.com/kedacore/keda/v2", f"v{KEDA.version}"),
    definitions="config/crd/bases/*.yaml",
    accounts=Accounts(
        (
            "config/service_account/service_account.yaml",
            "config/rbac/role.yaml",
            "config/rbac/role_binding.yaml",
            "config/metrics-server/role.yaml",
            "config/metrics-server/role_binding.yaml",
        ),
        namespace="keda",
        annotations=role_annotation,
    ),
    families=("keda",),
    installed_by=lambda config: "keda" in scalers(config),
    programs=_programs,
)
