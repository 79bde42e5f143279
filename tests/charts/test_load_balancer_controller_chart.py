"""Our values and permissions against the AWS Load Balancer Controller's chart and policy, from its Go module."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.aws.account import Account
from infra.platform import load_balancer_controller as controller
from spec.charts import AWS_LOAD_BALANCER_CONTROLLER
from spec.names import LOAD_BALANCER_CONTROLLER
from tests import pod_requests
from tests.charts.module_charts import module, readers_of_secrets, unknown
from tests.charts.rendering import only
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from tests.pod_identity import assert_pod
from tests.system.component import reach
from twin.releases import helm

pytestmark = pytest.mark.usefixtures("in_the_project")

Object = dict[str, Any]
NEWEST = KUBERNETES_MINORS[-1]
TLS_SECRET = "aws-load-balancer-tls"

INGRESS_ALONE = re.compile(
    r"(cognito-idp|waf-regional|wafv2|shield):.*"
    r"|elasticloadbalancing:(CreateRule|DeleteRule|ModifyRule|SetRulePriorities|SetWebAcl|ModifyIpPools)"
)
"""Only application load balancers have rules, firewalls, logins and address pools; network load balancers have none."""


def chart() -> Path:
    return module(AWS_LOAD_BALANCER_CONTROLLER.name) / "helm" / "aws-load-balancer-controller"


def values() -> dict[str, Any]:
    return controller.values("triton-prod", "us-west-2", "vpc-0123")


def render(given: dict[str, Any], minor: str = NEWEST, folder: Path | None = None) -> list[Object]:
    return helm.render(
        folder or chart(),
        name=AWS_LOAD_BALANCER_CONTROLLER.name,
        namespace=LOAD_BALANCER_CONTROLLER.namespace,
        values=given,
        kube_version=f"v{minor}.0",
    )


def test_its_pods_ask_for_what_they_are_counted_with() -> None:
    assert pod_requests.of_objects(render(values())) == pod_requests.counted(AWS_LOAD_BALANCER_CONTROLLER.name)


def intercepted(objects: list[Object]) -> set[str]:
    """Return the resources whose creation or change calls the controller's webhooks."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {
        resource
        for item in objects
        if item["kind"] in kinds
        for webhook in item["webhooks"]
        for rule in webhook["rules"]
        for resource in rule["resources"]
    }


def actions(document: dict[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def test_the_chart_is_the_pinned_one() -> None:
    metadata = yaml.safe_load((chart() / "Chart.yaml").read_text())
    assert metadata["version"] == AWS_LOAD_BALANCER_CONTROLLER.version


def test_every_value_is_one_that_the_chart_has() -> None:
    known = yaml.safe_load((chart() / "values.yaml").read_text())
    assert list(unknown(values(), known)) == []


def test_every_feature_that_is_switched_is_one_that_the_controller_has() -> None:
    source = (module(AWS_LOAD_BALANCER_CONTROLLER.name) / "pkg/config/feature_gates.go").read_text()
    known = set(re.findall(r'Feature = "(\w+)"', source))
    assert values()["controllerConfig"]["featureGates"].keys() <= known


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_object_is_valid(minor: str) -> None:
    assert_valid(render(values(), minor), minor)


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_the_controller_is_what_the_stack_says(minor: str) -> None:
    objects = render(values(), minor)
    deployment = only(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    account = only(objects, "ServiceAccount")
    assert account["metadata"]["name"] == pod["serviceAccountName"] == LOAD_BALANCER_CONTROLLER.name
    assert "annotations" not in account["metadata"]
    assert_pod(pod)
    flags = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])
    assert flags["cluster-name"] == "triton-prod"
    assert (flags["aws-region"], flags["aws-vpc-id"]) == ("us-west-2", "vpc-0123")
    assert flags["default-target-type"] == "ip"
    assert [flags[name] for name in ("enable-shield", "enable-waf", "enable-wafv2")] == ["false"] * 3
    gates = {gate.strip() for gate in flags["feature-gates"].split(",")}
    assert gates == {"ALBGatewayAPI=false", "NLBGatewayAPI=false"}
    assert deployment["spec"]["replicas"] == 2
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert container["resources"]["limits"] == {"memory": "256Mi"}
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_no_webhook_intercepts_services_and_by_default_one_would() -> None:
    """Otherwise every install would fail while the controller's pods are away: docs/facts/charts.md#webhooks-on-services."""
    assert "services" not in intercepted(render(values()))
    assert "services" in intercepted(render(values() | {"enableServiceMutatorWebhook": True}))


def test_no_webhook_intercepts_a_pod_that_does_not_ask_for_it() -> None:
    for webhook in only(render(values()), "MutatingWebhookConfiguration")["webhooks"]:
        if any("pods" in rule["resources"] for rule in webhook["rules"]):
            selectors = [*webhook["namespaceSelector"]["matchExpressions"], *webhook["objectSelector"]["matchExpressions"]]
            assert "In" in [selector["operator"] for selector in selectors], webhook["name"]


def test_there_is_no_class_of_ingresses() -> None:
    assert {item["kind"] for item in render(values())} & {"IngressClass", "IngressClassParams", "List"} == set()


def test_the_webhooks_trust_the_certificate_that_the_pods_serve_and_each_render_makes_another() -> None:
    made = []
    for _ in range(2):
        objects = render(values())
        secret = only(objects, "Secret", TLS_SECRET)["data"]
        webhooks = [hook for item in objects if "webhooks" in item for hook in item["webhooks"]]
        assert {hook["clientConfig"]["caBundle"] for hook in webhooks} == {secret["ca.crt"]}
        volumes = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
        assert TLS_SECRET in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
        made.append(secret["ca.crt"])
    assert made[0] != made[1]


def test_an_upgrade_keeps_the_certificate_that_is_there(tmp_path: Path) -> None:
    """Helm's `lookup` finds nothing without a cluster, so here the template finds a fake Secret."""
    copy = tmp_path / "chart"
    shutil.copytree(chart(), copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    helpers = copy / "templates" / "_helpers.tpl"
    text = helpers.read_text()
    lookup = 'lookup "v1" "Secret" .Release.Namespace $secretName'
    assert text.count(lookup) == 1
    found = 'dict "data" (dict "ca.crt" "b2xk" "tls.crt" "b2xk" "tls.key" "b2xk")'
    helpers.write_text(text.replace(lookup, found))
    kept = only(render(values(), folder=copy), "Secret", TLS_SECRET)["data"]
    assert kept == {"ca.crt": "b2xk", "tls.crt": "b2xk", "tls.key": "b2xk"}
    assert only(render(values() | {"keepTLSSecret": False}, folder=copy), "Secret", TLS_SECRET)["data"] != kept


def test_the_role_may_do_all_that_the_policy_of_the_version_allows_for_network_load_balancers() -> None:
    file = module(AWS_LOAD_BALANCER_CONTROLLER.name) / "docs" / "install" / "iam_policy.json"
    upstream = actions(json.loads(file.read_text()))
    account = Account(id="123456789012", partition="aws", region="us-west-2", caller_arn="")
    ours = actions(json.loads(controller.policy(account, "triton-prod")))
    needed = {action for action in upstream if not INGRESS_ALONE.fullmatch(action)}
    assert sorted(needed - ours) == []
    assert sorted(ours - upstream) == []


def test_its_ports_and_webhooks_are_in_the_table_of_connections() -> None:
    assert reach.unlisted(render(values())) == []


def test_its_cluster_roles_read_no_secret_of_every_namespace() -> None:
    assert readers_of_secrets(render(values())) == []
