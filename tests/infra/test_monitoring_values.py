"""The Helm values of kube-prometheus-stack and of the DCGM exporter.

The charts cannot be pulled on our machines: the tests compare the values with docs/facts/charts.md, which was
written from renders of the pinned charts.
"""

from __future__ import annotations

from typing import Any

import pytest

from infra.platform import gpu_metrics, prometheus_stack
from infra.platform.prometheus_stack import AlertTopic, RemoteWrite
from spec import gpu_pool
from spec.charts import KUBE_PROMETHEUS_STACK
from spec.settings import Sharing, load_stack_file
from spec.settings.monitoring import Monitoring
from tests.paths import ROOT
from tests.pod_identity import assert_credentials
from tests.spec.stack_config import TODAY, settings
from tests.spec.test_stack_mistakes_monitoring import SECTION

pytestmark = pytest.mark.usefixtures("in_the_project")

EXCLUSIVE = Sharing(strategy="exclusive", replicas=1)
AMP = RemoteWrite(region="us-west-2", url="https://aps/api/v1/remote_write")
TOPIC = AlertTopic(region="eu-west-1", arn="arn:aws:sns:eu-west-1:1:t")


def monitoring(**changes: Any) -> Monitoring:
    found = settings({"monitoring": {**SECTION, **changes}}).monitoring
    assert found is not None
    return found


def values(amp: RemoteWrite | None = None, topic: AlertTopic | None = None, **changes: Any) -> dict[str, Any]:
    return prometheus_stack.values(monitoring(**changes), "triton-staging", amp, topic)


def paths(tree: Any, path: str = "") -> dict[str, Any]:
    """Return every key of nested mappings, as a dotted path."""
    if not isinstance(tree, dict):
        return {}
    found = {f"{path}{key}": value for key, value in tree.items()}
    return found | {k: v for key, value in tree.items() for k, v in paths(value, f"{path}{key}.").items()}


def test_what_eks_does_not_let_anybody_scrape_is_not_scraped() -> None:
    made = values()
    hidden = ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy")
    assert {key: made[key] for key in hidden} == {key: {"enabled": False} for key in hidden}


def test_monitors_and_rules_of_all_releases_are_selected() -> None:
    spec = values()["prometheus"]["prometheusSpec"]
    selectors = ("serviceMonitor", "podMonitor", "rule", "probe", "scrapeConfig")
    assert [spec[f"{kind}SelectorNilUsesHelmValues"] for kind in selectors] == [False] * 5


@pytest.mark.parametrize(("gib", "kept"), [(10, "9GiB"), (50, "45GiB"), (16_384, "14745GiB")])
def test_prometheus_stops_before_its_volume_is_full(gib: int, kept: str) -> None:
    spec = values(storageGiB=gib, retentionDays=30)["prometheus"]["prometheusSpec"]
    claim = spec["storageSpec"]["volumeClaimTemplate"]["spec"]
    assert (spec["retention"], spec["retentionSize"]) == ("30d", kept)
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("gp3", f"{gib}Gi")


def test_replicas_are_told_apart_and_not_evicted_together() -> None:
    made = values(replicas=2)
    spec = made["prometheus"]["prometheusSpec"]
    assert (spec["replicas"], made["alertmanager"]["alertmanagerSpec"]["replicas"]) == (2, 2)
    assert spec["externalLabels"] == {"cluster": "triton-staging"}
    assert spec["replicaExternalLabelName"] == "__replica__"
    assert made["prometheus"]["podDisruptionBudget"] == {"enabled": True}


def test_a_budget_for_one_replica_would_keep_its_node_for_ever() -> None:
    made = values(replicas=1)
    assert made["prometheus"]["podDisruptionBudget"] == made["alertmanager"]["podDisruptionBudget"] == {"enabled": False}


def test_samples_leave_signed() -> None:
    made = values(amp=AMP)["prometheus"]
    (write,) = made["prometheusSpec"]["remoteWrite"]
    assert (write["url"], write["sigv4"]) == (AMP.url, {"region": "us-west-2"})
    assert made["serviceAccount"] == {"create": True, "name": "prometheus"}


def test_the_containers_that_write_to_aws_get_credentials_by_pod_identity() -> None:
    """The operator merges `containers` by name; these are the names that it uses itself."""
    made = values(amp=AMP, topic=TOPIC)
    for name, spec in (
        ("prometheus", made["prometheus"]["prometheusSpec"]),
        ("alertmanager", made["alertmanager"]["alertmanagerSpec"]),
    ):
        (container,) = spec["containers"]
        assert container["name"] == name
        assert_credentials(container["env"], spec["volumeMounts"], spec["volumes"])


def test_without_a_workspace_nothing_leaves() -> None:
    made = values()["prometheus"]
    assert "remoteWrite" not in made["prometheusSpec"]
    assert not {"containers", "volumes", "volumeMounts"} & made["prometheusSpec"].keys()


def test_alerts_go_to_the_topic_and_what_always_fires_goes_nowhere() -> None:
    config = values(topic=TOPIC)["alertmanager"]["config"]
    assert config["route"]["receiver"] == "sns"
    assert config["route"]["routes"] == [{"receiver": "null", "matchers": ['alertname =~ "Watchdog|InfoInhibitor"']}]
    assert config["receivers"] == [
        {"name": "null"},
        {
            "name": "sns",
            "sns_configs": [{"topic_arn": TOPIC.arn, "sigv4": {"region": "eu-west-1"}, "send_resolved": True}],
        },
    ]


def test_without_a_topic_every_receiver_that_a_route_names_exists() -> None:
    config = values()["alertmanager"]["config"]
    named = {config["route"]["receiver"], *(route["receiver"] for route in config["route"]["routes"])}
    assert named == {receiver["name"] for receiver in config["receivers"]} == {"null"}


def test_there_is_no_password_in_the_values_and_no_database_that_keeps_an_old_one() -> None:
    grafana = values()["grafana"]
    assert [path for path in paths(grafana) if "password" in path.lower()] == []
    assert grafana["persistence"] == {"enabled": False}


def test_grafana_finds_our_dashboards() -> None:
    sidecar = values()["grafana"]["sidecar"]["dashboards"]
    assert (sidecar["label"], sidecar["labelValue"], sidecar["searchNamespace"]) == ("grafana_dashboard", "1", "monitoring")


def test_grafana_and_the_exporter_of_objects_read_no_secret_of_other_namespaces() -> None:
    """The rendered result is in docs/facts/charts.md#kube-prometheus-stack."""
    grafana, exporter = values()["grafana"], values()["kube-state-metrics"]
    assert grafana["rbac"] == {"namespaced": True}
    assert {grafana["sidecar"][kind]["resource"] for kind in ("dashboards", "datasources")} == {"configmap"}
    assert "pods" in exporter["collectors"]
    assert not {"secrets", "configmaps"} & set(exporter["collectors"])


def test_nodes_are_labelled_with_what_the_dashboards_count_them_by() -> None:
    (allowed,) = values()["kube-state-metrics"]["metricLabelsAllowlist"]
    assert gpu_pool.POOL_LABEL in allowed.removeprefix("nodes=[").removesuffix("]").split(",")


def test_every_container_that_we_name_has_a_memory_limit() -> None:
    limited = {path for path, value in paths(values()).items() if path.endswith("resources") and "limits" in (value or {})}
    assert limited >= {
        "prometheus.prometheusSpec.resources",
        "alertmanager.alertmanagerSpec.resources",
        "prometheusOperator.resources",
        "kube-state-metrics.resources",
        "prometheus-node-exporter.resources",
        "grafana.resources",
    }


def test_the_exporter_runs_on_gpu_nodes_only_and_on_all_of_them() -> None:
    made = gpu_metrics.values([EXCLUSIVE])
    assert made["tolerations"] == [gpu_pool.gpu_toleration()]
    pools = load_stack_file(ROOT / "stacks" / "Pulumi.prod.yaml", today=TODAY).gpu.pools
    assert made["nodeSelector"]
    assert all(made["nodeSelector"].items() <= gpu_pool.labels(pool).items() for pool in pools)


def test_numbers_of_a_gpu_are_those_of_the_pod_on_it() -> None:
    made = gpu_metrics.values([EXCLUSIVE])
    assert made["serviceMonitor"]["honorLabels"] is True
    assert made["serviceMonitor"]["additionalLabels"] == {"release": KUBE_PROMETHEUS_STACK.name}
    assert made["kubernetes"]["enablePodLabels"] is True
    assert made["kubernetes"]["podLabelAllowlistRegex"] == [r"^app\.kubernetes\.io/name$"]


@pytest.mark.parametrize("strategy", ["time-slicing", "mps"])
def test_a_shared_gpu_has_pods_too(strategy: Any) -> None:
    shared = Sharing(strategy=strategy, replicas=4)
    assert gpu_metrics.values([EXCLUSIVE, shared])["extraEnv"] == [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"}]
    assert "extraEnv" not in gpu_metrics.values([EXCLUSIVE])
