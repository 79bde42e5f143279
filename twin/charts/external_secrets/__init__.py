"""External Secrets Operator: its real program, with AWS as its only provider."""

from collections.abc import Mapping
from typing import Any

from spec.charts import EXTERNAL_SECRETS_OPERATOR
from twin.releases.chart import Accounts, Chart, ChartContext, ChartPrograms, GoModule

TEMPLATES = "deploy/charts/external-secrets"
"""The folder of the chart in the module."""
FAMILY = "external-secrets"


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.external_secrets.program import ExternalSecrets  # only the agent needs it

    return ExternalSecrets(context)


def _installed_by(config: Mapping[str, Any]) -> bool:
    gateway = config.get("triton-eks:gateway")
    return isinstance(gateway, dict) and bool(gateway.get("clients")) and not gateway.get("jwt")


CHART = Chart(
    EXTERNAL_SECRETS_OPERATOR,
    "its real operator, of release 0.20.4 and with AWS as its only provider, runs as a process, with rights and arguments "
    "of chart 1.3",
    # Version 2 has no module, because its path would need the major version. The program is older still: version 1.3 has
    # several modules, of which only this one is published. 0.20.4 is the last version with a single module.
    GoModule("github.com/external-secrets/external-secrets", "v1.3.2"),
    definitions="config/crds/bases/*.yaml",
    accounts=Accounts(templates=TEMPLATES),
    families=(FAMILY,),
    installed_by=_installed_by,
    programs=_programs,
)
