"""OpenCost, an option of the stack's monitoring.

The chart cannot be pulled here: the tests compare its values with its documentation, without a render.
"""

from __future__ import annotations

from typing import Any

import pulumi_kubernetes as k8s
import pytest
from moto import mock_aws

from infra.platform.opencost import OpenCost, values
from spec.charts import OPENCOST
from spec.names import PROMETHEUS_URL
from spec.settings import SettingsError
from tests.infra.access import access
from tests.infra.access import stack as stack_of
from tests.paths import ROOT
from tests.stackctl.cost.test_usage import stack
from tests.system.component.engine.program import run
from twin.aws.base.clients import Clients


def test_it_reads_the_stacks_own_prometheus() -> None:
    found = values("triton-prod")["opencost"]
    internal = found["prometheus"]["internal"]
    address = f"http://{internal['serviceName']}.{internal['namespaceName']}.svc:{internal['port']}"
    assert address == PROMETHEUS_URL
    assert found["exporter"]["defaultClusterId"] == "triton-prod"
    assert found["metrics"]["serviceMonitor"]["enabled"] is True


def test_it_has_no_keys_and_no_way_in_from_outside() -> None:
    found = values("triton-prod")
    assert "aws" not in found["opencost"]["exporter"]
    assert found["service"]["type"] == "ClusterIP"
    assert found["opencost"]["ui"]["enabled"] is False


def test_the_pinned_chart_is_released_into_the_namespace_of_monitoring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    def program() -> None:
        provider = k8s.Provider("cluster", kubeconfig="{}")
        OpenCost("opencost", access(stack_of("prod"), provider=provider))

    with mock_aws():
        common: dict[str, Any] = {"project": "triton-eks", "stack": "prod", "config": {}, "root": ROOT}
        found = run(program, **common, clients=Clients("us-west-2"))
    chart = found.one("kubernetes:helm.sh/v3:Release", "opencost-release")
    assert (chart.checked["chart"], chart.checked["version"], chart.checked["namespace"]) == (
        "opencost",
        OPENCOST.version,
        "monitoring",
    )
    assert chart.provider


def test_a_stack_asks_for_it_with_one_word_and_has_none_by_itself() -> None:
    assert stack("prod").monitoring.open_cost is False  # type: ignore[union-attr]
    asked = stack("prod", lambda sections: sections["monitoring"].update({"openCost": True}))
    assert asked.monitoring is not None and asked.monitoring.open_cost is True
    with pytest.raises(SettingsError, match=r"monitoring\.openCost: 'yes' is text; give true or false"):
        stack("prod", lambda sections: sections["monitoring"].update({"openCost": "yes"}))
