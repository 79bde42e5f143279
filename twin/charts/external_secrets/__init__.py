"""External Secrets Operator: its real program, with AWS as its only provider."""

from collections.abc import Mapping
from typing import Any

from spec.charts import EXTERNAL_SECRETS_OPERATOR
from twin.releases.chart import Accounts, Chart, ChartContext, ChartPrograms, GoModule

TEMPLATES = "deploy/charts/external-secrets"
"""Where the chart itself lies in the module."""
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
    # Of version 2 there is no module: a second major version would have to be called so. The program is older still: that of
    # 1.3 is of several modules, of which this one alone is published, and 0.20.4 is the last one of a single module.
    GoModule("github.com/external-secrets/external-secrets", "v1.3.2"),
    definitions="config/crds/bases/*.yaml",
    accounts=Accounts(templates=TEMPLATES),
    families=(FAMILY,),
    installed_by=_installed_by,
    programs=_programs,
)
