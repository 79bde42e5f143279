"""Gateway, routes and policies on a real API server with the chart's CRDs: schemas and CEL rules."""

from __future__ import annotations

from typing import Any

import pytest

from infra.platform import client_keys, tracing
from infra.serving import model_access
from tests.infra import test_gateway as gateways
from tests.infra import test_model_access as clients
from tests.infra import test_routes as routes
from twin.charts.registry import CHARTS
from twin.cluster.kube_api import KubeClient
from twin.cluster.kube_errors import ApiError
from twin.plugins import definitions

# The first test that needs the control plane's tools may have to build them.
pytestmark = pytest.mark.timeout(1800)
CHART = "gateway-helm"
PLURALS = {
    "EnvoyProxy": "envoyproxies",
    "GatewayClass": "gatewayclasses",
    "ClientTrafficPolicy": "clienttrafficpolicies",
    "BackendTrafficPolicy": "backendtrafficpolicies",
    "SecurityPolicy": "securitypolicies",
}
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(api_server: KubeClient) -> KubeClient:
    """Return the client of an API server with the kinds that the twin installs in place of the chart."""
    for chart in (CHART, "external-secrets"):
        definitions.install(api_server, CHARTS[chart])
    for namespace in ("envoy-gateway-system", "triton", "tracing", "client-keys"):
        body: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        api_server.create("/api/v1/namespaces", body)
    return api_server


def accept(cluster: KubeClient, manifest: Manifest) -> Any:
    """Return the object as the server would store it. Raises ApiError if the server refuses it or drops a part."""
    namespace = manifest["metadata"].get("namespace")
    plural = PLURALS.get(manifest["kind"], f"{manifest['kind'].lower()}s")
    path = f"/apis/{manifest['apiVersion']}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"
    return cluster.create(path, manifest, dry_run=True)


@pytest.mark.usefixtures("in_the_project")
@pytest.mark.parametrize(
    "keys", [gateways.WITH_ACM, gateways.WITH_SECRET, gateways.PLAIN, {**gateways.WITH_ACM, "traced": True}], ids=str
)
def test_the_gateway_is_accepted(cluster: KubeClient, keys: Manifest) -> None:
    for manifest in gateways.made(**keys).values():
        assert accept(cluster, manifest)["metadata"]["name"] == "inference"


@pytest.mark.parametrize("model", routes.EVERY, ids=lambda model: f"{model.name}-{model.services}")
def test_the_routes_and_the_policy_of_a_model_are_accepted(cluster: KubeClient, model: routes.RoutedModel) -> None:
    for manifest in routes.made(model).values():
        accept(cluster, manifest)


@pytest.mark.parametrize("keys", [{}, {"jwt": clients.JWT}], ids=["keys", "jwt"])
def test_who_may_ask_is_accepted(cluster: KubeClient, keys: Manifest) -> None:
    for model in clients.models(**keys).values():
        for manifest in clients.made(model).values():
            accept(cluster, manifest)
    accept(cluster, model_access.refusal())
    policy = gateways.made(**gateways.WITH_ACM, clients={"team-a": {}})["ClientTrafficPolicy"]
    assert accept(cluster, policy)["spec"]["headers"]["earlyRequestHeaders"] == {"remove": ["x-triton-client"]}


def test_what_brings_the_keys_is_accepted(cluster: KubeClient) -> None:
    for manifest in client_keys.manifests("triton-prod", "us-west-2", ("team-a", "team-b")):
        accept(cluster, manifest)


def test_the_grant_is_accepted(cluster: KubeClient) -> None:
    grant = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "gateway", "namespace": "tracing"},
        "spec": tracing.grant_spec(),
    }
    accept(cluster, grant)


def test_the_server_would_have_found_a_mistake(cluster: KubeClient) -> None:
    """Mistakes in the schema, in a field's name, and in a CEL rule."""
    policy = routes.made(routes.SEQUENCE)["BackendTrafficPolicy"]
    without_hash = {**policy, "spec": {**policy["spec"], "loadBalancer": {"type": "ConsistentHash"}}}
    misspelt = {**policy, "spec": {**policy["spec"], "retries": {}}}
    wrong_unit = {**policy, "spec": {**policy["spec"], "timeout": {"tcp": {"connectTimeout": "1 second"}}}}
    for broken, said in ((without_hash, "consistentHash field needs to be set"), (misspelt, "retries"), (wrong_unit, "tcp")):
        with pytest.raises(ApiError, match=said):
            accept(cluster, broken)
