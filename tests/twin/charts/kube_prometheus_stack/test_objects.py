"""Objects that the twin creates from kube-prometheus-stack's values: the program's, and single ones."""

from typing import Any

import pytest

from infra.platform import prometheus_stack
from infra.platform.prometheus_stack import AlertTopic, RemoteWrite
from spec.charts import KUBE_PROMETHEUS_STACK
from spec.names import MONITORING_NAMESPACE as NAMESPACE
from spec.names import PROMETHEUS_URL
from spec.settings.monitoring import Monitoring
from tests.pod_identity import assert_credentials
from twin.charts.kube_prometheus_stack.objects import objects

SERVER = "https://127.0.0.1:6443"


RELEASE = KUBE_PROMETHEUS_STACK.name


def made(values: dict[str, Any], release: str = RELEASE) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for _, item in objects(release, NAMESPACE, values, SERVER)}


def specification(**prometheus: Any) -> dict[str, Any]:
    spec: dict[str, Any] = made({"prometheus": {"prometheusSpec": prometheus}})["Prometheus"]["spec"]
    return spec


@pytest.fixture
def ours() -> dict[str, Any]:
    wanted = Monitoring(runbooks="https://example.com/runbooks", replicas=2, retentionDays=15, storageGiB=50)
    write = RemoteWrite(region="us-west-2", url="https://aps.example.com")
    topic = AlertTopic(region="us-west-2", arn="arn:aws:sns:us-west-2:1:t")
    return prometheus_stack.values(wanted, "triton-local", write, topic)


def test_prometheus_is_found_where_the_program_says(ours: dict[str, Any]) -> None:
    service = made(ours)["Service"]
    (port,) = service["spec"]["ports"]
    metadata = service["metadata"]
    assert f"http://{metadata['name']}.{metadata['namespace']}.svc:{port['port']}" == PROMETHEUS_URL
    assert service["spec"]["selector"] == {
        "app.kubernetes.io/name": "prometheus",
        "operator.prometheus.io/name": made(ours)["Prometheus"]["metadata"]["name"],
    }


def test_what_the_program_wants_of_prometheus_is_passed_on_as_it_is(ours: dict[str, Any]) -> None:
    spec, given = made(ours)["Prometheus"]["spec"], ours["prometheus"]["prometheusSpec"]
    for key in ("replicas", "retention", "retentionSize", "externalLabels", "replicaExternalLabelName", "resources"):
        assert spec[key] == given[key], key


def test_the_programs_prometheus_selects_every_monitor_and_rule_of_every_namespace(ours: dict[str, Any]) -> None:
    spec = made(ours)["Prometheus"]["spec"]
    for kind in ("serviceMonitor", "podMonitor", "probe", "rule", "scrapeConfig"):
        assert (spec[f"{kind}Selector"], spec[f"{kind}NamespaceSelector"]) == ({}, {})


def test_by_default_the_chart_selects_its_own_release_alone_and_a_selector_is_kept() -> None:
    assert specification()["ruleSelector"] == {"matchLabels": {"release": RELEASE}}
    assert specification(ruleSelector={"matchLabels": {"team": "a"}})["ruleSelector"] == {"matchLabels": {"team": "a"}}
    spec = specification(podMonitorSelector={"matchLabels": {"a": "b"}}, podMonitorSelectorNilUsesHelmValues=False)
    assert spec["podMonitorSelector"] == {"matchLabels": {"a": "b"}}


def test_what_this_machine_cannot_have_is_left_out(ours: dict[str, Any]) -> None:
    given = ours["prometheus"]["prometheusSpec"]
    assert {"storageSpec", "remoteWrite"} <= given.keys()
    assert not {"storage", "storageSpec", "remoteWrite", "alerting"} & made(ours)["Prometheus"]["spec"].keys()


def test_prometheus_asks_the_api_server_of_the_twin_as_its_own_service_account(ours: dict[str, Any]) -> None:
    found = made(ours)
    assert found["Prometheus"]["spec"]["apiserverConfig"] == {
        "host": SERVER,
        "authorization": {"type": "Bearer", "credentialsFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        "tlsConfig": {"caFile": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"},
    }
    account = found["ServiceAccount"]["metadata"]
    assert found["Prometheus"]["spec"]["serviceAccountName"] == account["name"] == "prometheus"
    bindings = [item for _, item in objects(RELEASE, NAMESPACE, ours, SERVER) if item["kind"] == "ClusterRoleBinding"]
    subjects = [subject for binding in bindings for subject in binding["subjects"]]
    assert subjects == [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "twin-prometheus-operator"},
        {"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE},
    ]


def test_a_prometheus_that_writes_to_aws_keeps_the_environment_and_the_token_of_its_identity(ours: dict[str, Any]) -> None:
    spec = made(ours)["Prometheus"]["spec"]
    (container,) = spec["containers"]
    assert container["name"] == "prometheus"
    assert_credentials(container["env"], spec["volumeMounts"], spec["volumes"])


def test_scrapes_go_to_the_pods_processes_and_the_instance_stays_the_pods() -> None:
    (own,) = specification()["scrapeClasses"]
    instance, address = own["relabelings"]
    assert own["default"] is True
    assert instance == {"sourceLabels": ["__address__"], "targetLabel": "instance"}
    assert (address["regex"], address["replacement"]) == (r"10\.244\.(.+)", "127.244.${1}")


def test_the_programs_own_scrape_classes_are_kept() -> None:
    given = [{"name": "tls", "default": True, "relabelings": [{"targetLabel": "a", "replacement": "b"}]}]
    (found,) = specification(scrapeClasses=given)["scrapeClasses"]
    assert found["name"] == "tls"
    assert found["relabelings"][0] == {"targetLabel": "a", "replacement": "b"}
    assert len(found["relabelings"]) == 3


def test_replicas_keep_apart_as_the_values_say(ours: dict[str, Any]) -> None:
    (soft,) = made(ours)["Prometheus"]["spec"]["affinity"]["podAntiAffinity"].values()
    assert soft[0]["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
    assert list(specification(podAntiAffinity="hard")["affinity"]["podAntiAffinity"]) == [
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert "affinity" not in specification(podAntiAffinity="")


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("kube-prometheus-stack", {}, "kube-prometheus-stack-prometheus"),
        ("my-kube-prometheus-stack", {}, "my-kube-prometheus-stack-prometheus"),
        ("metrics", {}, "metrics-kube-prometheus-st-prometheus"),
        ("metrics", {"nameOverride": "m"}, "metrics-prometheus"),
        ("metrics", {"nameOverride": "x"}, "metrics-x-prometheus"),
        ("metrics", {"fullnameOverride": "prom"}, "prom-prometheus"),
    ],
)
def test_names_are_made_as_the_chart_makes_them(release: str, values: dict[str, Any], name: str) -> None:
    assert made(values, release)["Prometheus"]["metadata"]["name"] == name


def test_every_object_says_what_it_stands_for_and_has_the_path_of_its_kind() -> None:
    paths = {path: item["metadata"]["labels"] for path, item in objects(RELEASE, NAMESPACE, {}, SERVER)}
    assert set(map(str, paths.values())) == {"{'twin.triton-eks/chart': 'kube-prometheus-stack'}"}
    assert [path.rpartition("/")[0] for path in paths] == [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/api/v1/namespaces/monitoring/serviceaccounts",
        "/api/v1/namespaces/monitoring/services",
        "/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses",
    ]
