"""Renders our values with real Helm and the Karpenter chart from its Go module."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.platform import karpenter
from tests import pod_requests
from tests.charts.module_charts import module, readers_of_secrets, unknown
from tests.charts.rendering import only
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from tests.infra.test_karpenter_pools import karpenter_values
from tests.spec.test_stack_mistakes_monitoring import SECTION
from tests.system.component import reach
from twin.releases import helm

Object = dict[str, Any]


def chart() -> Path:
    return module("karpenter-crd") / "charts" / "karpenter"


def render(values: Mapping[str, Any], minor: str) -> list[Object]:
    return helm.render(
        chart(),
        name="karpenter",
        namespace="kube-system",
        values=values,
        kube_version=f"v{minor}.0",
        api_versions=["monitoring.coreos.com/v1"],
    )


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_the_controller_is_what_the_stack_says(minor: str) -> None:
    objects = render(karpenter_values(monitoring=SECTION), minor)
    deployment = only(objects, "Deployment", "karpenter")
    pod = deployment["spec"]["template"]["spec"]
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert env["CLUSTER_NAME"] == "triton-staging"
    assert env["INTERRUPTION_QUEUE"] == "q"
    assert env["EKS_CONTROL_PLANE"] == "true"
    assert env["VM_MEMORY_OVERHEAD_PERCENT"] == "0.06", "the share of memory that a stack's pods are told not to have"
    assert {"ReservedCapacity=true", "NodeRepair=true"} <= set(env["FEATURE_GATES"].split(","))
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}
    assert deployment["spec"]["replicas"] == 2
    assert only(objects, "ServiceAccount")["metadata"]["name"] == pod["serviceAccountName"] == karpenter.CONTROLLER.name
    assert only(objects, "ServiceMonitor")


def test_its_pods_ask_for_what_they_are_counted_with_and_refuse_to_share_a_node() -> None:
    objects = render(karpenter_values(monitoring=SECTION), KUBERNETES_MINORS[0])
    assert pod_requests.of_objects(objects) == pod_requests.counted("karpenter")
    spec = only(objects, "Deployment", "karpenter")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 1}, "an update needs no room for one more"
    (term,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_object_is_valid(minor: str) -> None:
    assert_valid(render(karpenter_values(monitoring=SECTION), minor), minor)


def test_every_value_is_one_that_the_chart_has() -> None:
    known = yaml.safe_load((chart() / "values.yaml").read_text())
    assert list(unknown(karpenter_values(monitoring=SECTION), known)) == []


def test_the_validation_reads_custom_kinds_too() -> None:
    objects = render(karpenter_values(monitoring=SECTION), KUBERNETES_MINORS[0])
    only(objects, "ServiceMonitor")["spec"]["endpoint"] = []
    with pytest.raises(AssertionError, match="'endpoint' was unexpected"):
        assert_valid(objects, KUBERNETES_MINORS[0])


def test_its_ports_and_webhooks_are_in_the_table_of_connections() -> None:
    assert reach.unlisted(render(karpenter_values(monitoring=SECTION), KUBERNETES_MINORS[-1])) == []


def test_its_cluster_roles_read_no_secret_of_every_namespace() -> None:
    assert readers_of_secrets(render(karpenter_values(), KUBERNETES_MINORS[-1])) == []
