"""The configuration of Envoy Gateway's controller, from the chart's values and this machine's needs."""

import pytest
import yaml

from tests.paths import ROOT
from twin.charts.envoy_gateway.controller import configuration
from twin.releases.chart import ChartFailed

OWN = "127.244.130.1"


def test_the_programs_values_make_one_controller_that_listens_at_the_twins_own_address() -> None:
    values = yaml.safe_load((ROOT / "helm-values" / "gateway-helm" / "base.yaml").read_text())
    made = configuration(values, OWN)
    assert made["provider"] == {
        "type": "Kubernetes",
        "kubernetes": {
            "shutdownManager": {"image": "docker.io/envoyproxy/gateway:v1.9.0"},
            "proxyTopologyInjector": {"disabled": True},
            "leaderElection": {"disable": True},
        },
    }
    assert made["admin"] == {"address": {"host": OWN, "port": 19000}}
    assert made["telemetry"] == {"metrics": {"prometheus": {"disable": True}}}


def test_what_the_values_say_of_the_controller_is_kept() -> None:
    values = {"topologyInjector": {"enabled": False}, "config": {"envoyGateway": {"extensionApis": {"enableBackend": True}}}}
    assert configuration(values, OWN)["extensionApis"] == {"enableBackend": True}


def test_a_webhook_on_pods_is_refused() -> None:
    with pytest.raises(ChartFailed, match=r"topologyInjector\.enabled: false"):
        configuration({}, OWN)
