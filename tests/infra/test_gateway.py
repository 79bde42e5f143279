"""Envoy Gateway and the AWS Load Balancer Controller: access to Envoy, its shutdown, and the controllers' configuration."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from infra.aws.account import Account
from infra.aws.network_access import NetworkAccess
from infra.platform import gateway as envoy
from infra.platform import load_balancer_controller as controller
from infra.platform.gateway import InferenceGatewayArgs
from spec.names import LOAD_BALANCER_CONTROLLER
from spec.settings.gateway import Gateway
from tests import crds
from tests.charts import rendering
from tests.infra.access import NETWORK

pytestmark = pytest.mark.usefixtures("in_the_project")

CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
WITH_ACM: dict[str, Any] = {"certificateArn": CERTIFICATE}
WITH_SECRET: dict[str, Any] = {"tlsSecret": "inference-tls"}
PLAIN: dict[str, Any] = {}
Manifest = dict[str, Any]


def gateway(**keys: Any) -> Gateway:
    return Gateway.model_validate_json(json.dumps({"replicas": 2, "cpu": "1500m", "memoryMiB": 512, **keys}))


def made(*, traced: bool = False, network: NetworkAccess = NETWORK, **keys: Any) -> dict[str, Manifest]:
    """Return the custom resources by kind."""
    args = InferenceGatewayArgs(
        gateway=gateway(**keys),
        network=network,
        longest_request_seconds=60,
        traced=traced,
        tags={"owner": "ml-platform", "environment": "prod", "odd": "a,b", "pair": "c=d"},
        certificate_arn=keys.get("certificateArn"),
        slos_ms={120, 50},
    )
    return {manifest["kind"]: manifest for manifest in envoy.manifests(args)}


def test_the_histogram_of_times_has_a_bucket_at_each_slo() -> None:
    """They add to Envoy's own buckets, which include 50 ms (source/common/stats/histogram_impl.cc of Envoy 1.39)."""
    bootstrap = made()["EnvoyProxy"]["spec"]["bootstrap"]
    (setting,) = json.loads(bootstrap["value"])["stats_config"]["histogram_bucket_settings"]
    assert (bootstrap["type"], setting["match"]) == ("Merge", {"suffix": ".upstream_rq_time"})
    assert setting["buckets"][:9] == [0.5, 1, 5, 10, 25, 50, 100, 120, 250]
    assert (len(setting["buckets"]), setting["buckets"][-1]) == (20, 3600000)


def annotations(**keys: Any) -> dict[str, str]:
    """Return the Service's annotations, without their common prefix."""
    service = made(**keys)["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyService"]
    prefix = "service.beta.kubernetes.io/aws-load-balancer-"
    assert all(key.startswith(prefix) for key in service["annotations"])
    return {key.removeprefix(prefix): value for key, value in service["annotations"].items()}


@pytest.mark.parametrize(
    "keys", [WITH_ACM, WITH_SECRET, PLAIN, {**WITH_ACM, "traced": True, "imageRegistry": "a.example/b"}], ids=str
)
def test_the_definitions_of_the_chart_know_every_field(keys: dict[str, Any]) -> None:
    for manifest in made(**keys).values():
        assert crds.problems("gateway-helm", manifest) == []


def test_envoys_image_is_of_a_release_without_known_holes() -> None:
    """By default Envoy Gateway starts 1.39.0: https://www.envoyproxy.io/docs/envoy/v1.39.6/version_history/v1.39/v1.39.1."""

    def container(**keys: Any) -> Any:
        return made(**keys)["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyDeployment"]["container"]

    assert container(**WITH_ACM)["image"] == "docker.io/envoyproxy/envoy:distroless-v1.39.6"
    named = container(**WITH_ACM, imageRegistry="registry.example.com:5000/hub")
    assert named["image"] == "registry.example.com:5000/hub/envoyproxy/envoy:distroless-v1.39.6"


def test_each_object_names_only_what_is_there() -> None:
    objects = made(**WITH_ACM)
    reference = objects["GatewayClass"]["spec"]["parametersRef"]
    proxy = objects["EnvoyProxy"]["metadata"]
    assert (reference["kind"], reference["name"], reference["namespace"]) == (
        "EnvoyProxy",
        proxy["name"],
        proxy["namespace"],
    )
    assert objects["Gateway"]["spec"]["gatewayClassName"] == objects["GatewayClass"]["metadata"]["name"]
    (target,) = objects["ClientTrafficPolicy"]["spec"]["targetRefs"]
    assert (target["kind"], target["name"]) == ("Gateway", objects["Gateway"]["metadata"]["name"])
    assert objects["ClientTrafficPolicy"]["metadata"]["namespace"] == objects["Gateway"]["metadata"]["namespace"]
    assert "namespace" not in objects["GatewayClass"]["metadata"]


@pytest.mark.parametrize(
    ("keys", "scheme", "sources"),
    [
        (WITH_ACM, "internal", ["10.40.0.0/16"]),
        ({**WITH_ACM, "allowedCidrs": ["10.8.0.0/16"]}, "internal", ["10.40.0.0/16", "10.8.0.0/16"]),
        ({**WITH_ACM, "exposure": "public", "allowedCidrs": ["203.0.113.0/24"]}, "internet-facing", ["203.0.113.0/24"]),
    ],
    ids=str,
)
def test_only_who_may_reaches_the_load_balancer(keys: dict[str, Any], scheme: str, sources: list[str]) -> None:
    service = made(**keys)["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyService"]
    assert annotations(**keys)["scheme"] == scheme
    assert service["loadBalancerSourceRanges"] == sources
    assert service["loadBalancerClass"] == "service.k8s.aws/nlb"
    assert annotations(**keys)["nlb-target-type"] == "ip"


def test_tls_ends_at_the_load_balancer_with_a_certificate_of_acm() -> None:
    found = annotations(**WITH_ACM)
    assert found["ssl-cert"] == CERTIFICATE
    assert found["ssl-ports"] == "443,8443"
    assert found["alpn-policy"] == "HTTP2Preferred"
    listeners = made(**WITH_ACM)["Gateway"]["spec"]["listeners"]
    assert [(item["name"], item["port"], item["protocol"], "tls" in item) for item in listeners] == [
        ("http", 443, "HTTP", False),
        ("grpc", 8443, "HTTP", False),
    ]


def test_tls_ends_in_envoy_with_a_secret() -> None:
    assert not {"ssl-cert", "ssl-ports", "alpn-policy"} & annotations(**WITH_SECRET).keys()
    objects = made(**WITH_SECRET)
    for listener in objects["Gateway"]["spec"]["listeners"]:
        assert listener["protocol"] == "HTTPS"
        assert listener["tls"] == {"mode": "Terminate", "certificateRefs": [{"kind": "Secret", "name": "inference-tls"}]}
    assert objects["ClientTrafficPolicy"]["spec"]["tls"] == {"minVersion": "1.2"}


def test_without_tls_clients_find_tritons_own_ports() -> None:
    listeners = made()["Gateway"]["spec"]["listeners"]
    assert [(item["port"], item["protocol"]) for item in listeners] == [(8000, "HTTP"), (8001, "HTTP")]


def test_http_and_grpc_do_not_share_a_listener() -> None:
    """On one listener the Gateway API accepts only one kind of route for a host, and refuses the other kind."""
    listeners = made(**WITH_ACM)["Gateway"]["spec"]["listeners"]
    kinds = [[kind["kind"] for kind in item["allowedRoutes"]["kinds"]] for item in listeners]
    assert kinds == [["HTTPRoute"], ["GRPCRoute"]]
    assert len({item["port"] for item in listeners}) == 2


def test_routes_come_from_tritons_namespace_alone() -> None:
    for listener in made(**WITH_ACM)["Gateway"]["spec"]["listeners"]:
        assert listener["allowedRoutes"]["namespaces"] == {
            "from": "Selector",
            "selector": {"matchLabels": {"kubernetes.io/metadata.name": "triton"}},
        }


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text[:-1])


def test_an_envoy_ends_after_the_load_balancer_has_left_it_and_its_requests_are_answered() -> None:
    shutdown = made(**WITH_ACM)["EnvoyProxy"]["spec"]["shutdown"]
    assert shutdown == {"drainTimeout": "120s", "minDrainDuration": "60s"}
    assert annotations(**WITH_ACM)["target-group-attributes"] == "deregistration_delay.timeout_seconds=120"
    idle = made(**WITH_ACM)["ClientTrafficPolicy"]["spec"]["timeout"]["http"]["idleTimeout"]
    assert seconds(idle) < seconds(shutdown["minDrainDuration"])
    assert seconds(idle) < 350, "the load balancer drops idle connections without a word after that"


def test_health_is_what_envoy_says_of_itself() -> None:
    found = annotations(**WITH_ACM)
    check = [found[f"healthcheck-{key}"] for key in ("protocol", "port", "path")]
    assert check == ["http", "19003", "/ready"]


def test_the_load_balancer_has_the_tags_that_an_annotation_can_say() -> None:
    assert annotations(**WITH_ACM)["additional-resource-tags"] == "environment=prod,owner=ml-platform"


def test_no_cluster_service_takes_the_place_of_an_envoy() -> None:
    """Without a class it has priority 0, and the scheduler evicts it for any pod with system-cluster-critical."""
    deployment = made(**WITH_ACM)["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyDeployment"]
    assert deployment["pod"]["priorityClassName"] == "system-cluster-critical"


def test_requests_that_failed_are_logged_and_no_others() -> None:
    log = made(**WITH_ACM)["EnvoyProxy"]["spec"]["telemetry"]["accessLog"]
    grpc = "request.headers['content-type'].startsWith('application/grpc')"
    failed = f"response.code >= 400 || ({grpc} && response.grpc_status != 0)"
    assert log == {"settings": [{"matches": [failed], "sinks": [{"type": "File", "file": {"path": "/dev/stdout"}}]}]}


def test_envoy_runs_as_often_and_as_large_as_the_stack_says() -> None:
    spec = made(replicas=3, **WITH_ACM)["EnvoyProxy"]["spec"]
    deployment = spec["provider"]["kubernetes"]["envoyDeployment"]
    assert deployment["replicas"] == 3
    assert deployment["container"]["resources"] == {
        "requests": {"cpu": "1500m", "memory": "512Mi"},
        "limits": {"memory": "512Mi"},
    }
    assert spec["concurrency"] == 2
    assert spec["provider"]["kubernetes"]["envoyPDB"] == {"maxUnavailable": 1}


def test_a_gateway_without_a_collector_does_not_trace() -> None:
    assert "tracing" not in made(**WITH_ACM)["EnvoyProxy"]["spec"]["telemetry"]
    found = made(traced=True, **WITH_ACM)["EnvoyProxy"]["spec"]["telemetry"]["tracing"]
    (backend,) = found["provider"]["backendRefs"]
    assert (backend["namespace"], backend["name"], backend["port"]) == ("tracing", "otel-collector", 4317)


def test_tritons_network_policy_lets_the_gateway_in_and_not_to_its_metrics() -> None:
    """helm-values/triton allows the namespace by this label."""
    policy = rendering.only(rendering.render(environment="prod"), "NetworkPolicy")
    inference, metrics = policy["spec"]["ingress"]
    label = {"namespaceSelector": {"matchLabels": {"triton-eks/inference-client": "true"}}}
    assert label in inference["from"]
    assert [port["port"] for port in inference["ports"]] == [8000, 8001]
    assert label not in metrics["from"]


def test_the_load_balancer_controllers_webhook_intercepts_no_service() -> None:
    """tests/charts/test_load_balancer_controller_chart.py tests the effect in the chart."""
    values = controller.values("triton-prod", "us-west-2", "vpc-0123")
    assert values["enableServiceMutatorWebhook"] is False
    assert values["keepTLSSecret"] is True
    assert (values["clusterName"], values["region"], values["vpcId"]) == ("triton-prod", "us-west-2", "vpc-0123")
    assert values["defaultTargetType"] == "ip"
    assert values["serviceAccount"] == {"create": True, "name": LOAD_BALANCER_CONTROLLER.name}


def statements(partition: str = "aws") -> dict[str, dict[str, Any]]:
    """Return the statements of the controller's policy, by their id."""
    account = Account(id="123456789012", partition=partition, region="us-west-2", caller_arn="")
    found = json.loads(controller.policy(account, "triton-prod"))["Statement"]
    by_id = {statement["Sid"]: statement for statement in found}
    assert len(by_id) == len(found)
    return by_id


@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_the_controllers_policy_is_of_its_account_and_names_every_action(partition: str) -> None:
    found = statements(partition).values()
    named = {resource for statement in found for resource in statement["Resource"]} - {"*"}
    services = {tuple(resource.split(":")[:5]) for resource in named}
    regional = {("arn", partition, kind, "us-west-2", "123456789012") for kind in ("acm", "ec2", "elasticloadbalancing")}
    assert services == regional | {("arn", partition, "iam", "", "123456789012")}
    actions = [action for statement in found for action in statement["Action"]]
    assert all(re.fullmatch(r"(ec2|elasticloadbalancing|acm|iam):[A-Z]\w+", action) for action in actions)


def test_what_the_controller_changes_everywhere_is_of_its_own_cluster() -> None:
    """Reads may cover the whole account. Other statements for all resources require this cluster's tag and value."""
    reads = re.compile(r"\w+:(Describe|List|Get)\w+")
    tags = ("RequestTag/elbv2.k8s.aws/cluster", "ResourceTag/elbv2.k8s.aws/cluster")
    for sid, statement in statements().items():
        if statement["Resource"] != ["*"] or all(reads.fullmatch(action) for action in statement["Action"]):
            continue
        condition = statement["Condition"]["StringEquals"]
        allowed = [{f"aws:{tag}": "triton-prod"} for tag in tags]
        allowed += [{"aws:ResourceTag/kubernetes.io/cluster/triton-prod": "owned"}]
        allowed += [{"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}]
        assert condition in allowed, sid


def test_the_controllers_tag_is_given_at_birth_and_never_later() -> None:
    """A controller that could tag existing resources could take them over."""
    for sid, statement in statements().items():
        tagging = [action for action in statement["Action"] if action.endswith("Tags")]
        if sid in ("LookAround", "ChangeListeners") or not tagging:
            continue
        at_birth = any(key.endswith(":CreateAction") for key in statement["Condition"]["StringEquals"])
        later = statement["Condition"].get("Null") == {"aws:RequestTag/elbv2.k8s.aws/cluster": "true"}
        assert at_birth is not later, sid


def test_the_controller_makes_no_application_load_balancer() -> None:
    text = json.dumps(list(statements().values()))
    assert "/app/" not in text
    assert not re.search(r"elasticloadbalancing:(Create|Delete|Modify)Rule", text)


def test_the_policy_fits_into_a_role() -> None:
    """All inline policies of a role together may have 10,240 characters."""
    account = Account(id="123456789012", partition="aws-us-gov", region="us-gov-west-1", caller_arn="")
    assert len(controller.policy(account, "triton-staging")) < 10_240


def test_a_load_balancer_in_a_vpc_that_was_there_is_told_its_subnets_and_who_is_in_the_vpc() -> None:
    """Without subnet ids, the controller looks for tagged subnets, and another owner's VPC may lack these tags."""
    subnets = {"internal": ["subnet-0a", "subnet-0b"], "public": ["subnet-1a"]}
    network = replace(NETWORK, cidrs=["10.0.0.0/16", "100.64.0.0/16"], load_balancer_subnet_ids=subnets)
    assert annotations(network=network)["subnets"] == "subnet-0a,subnet-0b"
    public = {"exposure": "public", "allowedCidrs": ["198.51.100.0/24"], **WITH_ACM}
    assert annotations(network=network, **public)["subnets"] == "subnet-1a"
    assert "subnets" not in annotations()
    for keys, ranges in (({}, ["10.0.0.0/16", "100.64.0.0/16"]), (public, ["198.51.100.0/24"])):
        service = made(network=network, **keys)["EnvoyProxy"]["spec"]["provider"]["kubernetes"]["envoyService"]
        assert service["loadBalancerSourceRanges"] == ranges
