"""Services, NetworkPolicy, identity and pod security: access to the server, and its permissions."""

import pytest

from tests.charts import pod_security, rendering
from tests.charts.rendering import ENVIRONMENTS, Object

HTTP = {"name": "http", "port": 8000, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}
GRPC = {"name": "grpc", "port": 8001, "targetPort": "grpc", "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}
METRICS = {"name": "metrics", "port": 8002, "targetPort": "metrics", "protocol": "TCP", "appProtocol": "http"}
NAME = "app.kubernetes.io/name"
SELECTOR = {NAME: "triton", "app.kubernetes.io/instance": "triton"}


@pytest.fixture(scope="module")
def prod() -> list[Object]:
    return rendering.render({"modelRepository": {"s3": {"endpoint": ""}}}, environment="prod")


@pytest.mark.parametrize(
    ("name", "ports", "cluster_ip"),
    [
        ("triton", [HTTP, GRPC], None),
        ("triton-headless", [HTTP, GRPC], "None"),
        ("triton-metrics", [METRICS], None),
    ],
)
def test_each_purpose_has_its_own_internal_service(
    prod: list[Object], name: str, ports: list[Object], cluster_ip: str | None
) -> None:
    spec = rendering.only(prod, "Service", name)["spec"]
    assert spec["ports"] == ports
    assert spec["type"] == "ClusterIP"
    assert spec.get("clusterIP") == cluster_ip
    assert spec["selector"] == SELECTOR


def test_there_are_no_other_services(prod: list[Object]) -> None:
    names = [o["metadata"]["name"] for o in prod if o["kind"] == "Service"]
    assert names == ["triton", "triton-headless", "triton-metrics"]


def test_the_headless_service_lists_ready_pods_only(prod: list[Object]) -> None:
    assert rendering.only(prod, "Service", "triton-headless")["spec"]["publishNotReadyAddresses"] is False


def test_a_monitor_can_tell_the_metrics_service_apart(prod: list[Object]) -> None:
    components = [o["metadata"]["labels"]["app.kubernetes.io/component"] for o in prod if o["kind"] == "Service"]
    assert components == ["inference", "inference-headless", "metrics"]


def test_named_ports_resolve_and_selectors_match_the_pod(prod: list[Object]) -> None:
    template = rendering.only(prod, "Deployment")["spec"]["template"]
    ports = {p["name"]: p["containerPort"] for p in template["spec"]["containers"][0]["ports"]}
    assert ports == {"http": 8000, "grpc": 8001, "metrics": 8002}
    for service in (o for o in prod if o["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    container = template["spec"]["containers"][0]
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    selectors = [
        rendering.only(prod, "Deployment")["spec"]["selector"]["matchLabels"],
        rendering.only(prod, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        rendering.only(prod, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(o["spec"]["selector"] for o in prod if o["kind"] == "Service"),
        *(c["labelSelector"]["matchLabels"] for c in template["spec"]["topologySpreadConstraints"]),
    ]
    assert all(selector == SELECTOR for selector in selectors)
    assert SELECTOR.items() <= template["metadata"]["labels"].items()


def test_clients_reach_the_inference_ports_and_monitoring_the_metrics(prod: list[Object]) -> None:
    policy = rendering.only(prod, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [
        {
            "from": [
                {
                    "podSelector": {
                        "matchExpressions": [{"key": NAME, "operator": "In", "values": ["triton-parity", "triton-compare"]}]
                    }
                },
                {"namespaceSelector": {"matchLabels": {"triton-eks/inference-client": "true"}}},
            ],
            "ports": [{"port": 8000, "protocol": "TCP"}, {"port": 8001, "protocol": "TCP"}],
        },
        {
            "from": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                    "podSelector": {"matchLabels": {NAME: "prometheus"}},
                }
            ],
            "ports": [{"port": 8002, "protocol": "TCP"}],
        },
    ]


@pytest.mark.parametrize(
    ("endpoint", "ports"),
    [
        ("", [443]),
        ("http://minio.minio:9000", [443, 9000]),
        ("http://minio.minio", [443, 80]),
        ("https://minio.example", [443]),
        ("https://minio.example:443", [443]),
    ],
)
def test_the_server_may_call_dns_https_and_the_s3_endpoint(endpoint: str, ports: list[int]) -> None:
    overrides = {"modelRepository": {"s3": {"endpoint": endpoint}}}
    dns, https = rendering.only(rendering.render(overrides), "NetworkPolicy")["spec"]["egress"]
    assert dns == {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
    }
    assert https == {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}


def test_further_egress_is_appended() -> None:
    rule = {"to": [{"podSelector": {"matchLabels": {"app": "collector"}}}], "ports": [{"port": 4318}]}
    policy = rendering.only(rendering.render({"networkPolicy": {"extraEgress": [rule]}}), "NetworkPolicy")
    assert policy["spec"]["egress"][2] == rule


def test_the_policy_can_be_left_out() -> None:
    assert "NetworkPolicy" not in rendering.kinds(rendering.render({"networkPolicy": {"enabled": False}}))


def test_the_service_account_carries_the_role_and_no_api_token(prod: list[Object]) -> None:
    account = rendering.only(prod, "ServiceAccount")
    assert account["metadata"]["name"] == "triton"
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/triton"}
    assert account["automountServiceAccountToken"] is False
    spec = rendering.only(prod, "Deployment")["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "triton"
    assert spec["automountServiceAccountToken"] is False


def test_an_existing_service_account_can_be_used() -> None:
    objects = rendering.render({"serviceAccount": {"create": False, "name": "models-reader"}})
    assert "ServiceAccount" not in rendering.kinds(objects)
    assert rendering.only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "models-reader"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_pod_meets_the_restricted_standard(environment: str) -> None:
    assert pod_security.violations(rendering.pod(environment=environment)) == []


def test_the_root_file_system_is_read_only_and_service_links_are_off() -> None:
    pod = rendering.pod()
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["fsGroup"] == 1000


@pytest.mark.parametrize(
    ("field", "value", "violation"),
    [
        ("allowPrivilegeEscalation", True, "triton: allowPrivilegeEscalation"),
        ("capabilities", {"drop": ["NET_RAW"]}, "triton: capabilities.drop"),
        ("capabilities", {"drop": ["ALL"], "add": ["SYS_PTRACE"]}, "triton: capabilities.add"),
        ("privileged", True, "triton: privileged"),
        ("runAsNonRoot", False, "triton: runAsNonRoot"),
        ("runAsUser", 0, "triton: runAsUser"),
        ("seccompProfile", {"type": "Unconfined"}, "triton: seccompProfile"),
    ],
)
def test_the_check_of_the_restricted_standard_can_fail(field: str, value: object, violation: str) -> None:
    pod = rendering.pod()
    pod["containers"][0]["securityContext"][field] = value
    assert pod_security.violations(pod) == [violation]


def test_the_check_of_the_restricted_standard_sees_host_access() -> None:
    pod = rendering.pod()
    pod["hostPID"] = True
    pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    assert pod_security.violations(pod) == ["hostPID: true", "volume host: hostPath"]
