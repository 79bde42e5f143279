"""The kubernetes provider without an API server: checks, differences, releases, and a server that is down.

Tests with a real API server are in tests/system/e2e.
"""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2

from tests.twin.plugins.recording_engine import RecordingEngine, plain, provider_stub, recording_engine, struct, urn
from twin.charts.registry import CHARTS
from twin.cluster.kube_api import ApiResource
from twin.cluster.kube_errors import ApiError
from twin.host import claim
from twin.host.home import TwinHome
from twin.plugins import kube_objects
from twin.plugins import kubeconfig as kubeconfigs
from twin.plugins.errors import PluginError
from twin.plugins.kubeconfig import parse_kubeconfig
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.server import EngineLog
from twin.plugins.values import UNKNOWN, secret

NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
DEPLOYMENT, CONFIG_MAP, NAMESPACE = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:core/v1:Namespace",
)
RELEASE = "kubernetes:helm.sh/v3:Release"


def kubeconfig(server: str, **user: Any) -> dict[str, Any]:
    return {
        "current-context": "twin",
        "contexts": [{"name": "twin", "context": {"cluster": "twin", "user": "admin"}}],
        "clusters": [{"name": "twin", "cluster": {"server": server}}],
        "users": [{"name": "admin", "user": user or {"token": "t"}}],
    }


@pytest.fixture
def dead_server() -> Iterator[str]:
    # Bound without listening: connections are refused, and no other process can take the port.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def engine() -> Iterator[RecordingEngine]:
    with recording_engine() as engine:
        yield engine


@pytest.fixture
def provider(engine: RecordingEngine, dead_server: str) -> Iterator[Any]:
    """Yield a provider whose API server is down."""
    with provider_stub(KubernetesProvider(EngineLog(engine.address))) as stub:
        config = {"kubeconfig": json.dumps(kubeconfig(dead_server)), "namespace": "triton"}
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(config)))
        yield stub


def _check(provider: Any, type: str, name: str, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Any:
    return provider.Check(
        provider_pb2.CheckRequest(urn=urn(type, name), news=struct(news), olds=struct(olds or {}), randomSeed=b"s" * 32)
    )


def _failures(response: Any) -> dict[str, str]:
    return {failure.property: failure.reason for failure in response.failures}


def test_check_fills_in_name_and_namespace(provider: Any) -> None:
    inputs = plain(_check(provider, CONFIG_MAP, "settings", {"apiVersion": "v1", "kind": "ConfigMap"}).inputs)
    assert re.fullmatch(r"settings-[0-9a-f]{8}", inputs["metadata"]["name"])
    assert inputs["metadata"]["namespace"] == "triton"


def test_a_namespace_has_no_namespace(provider: Any) -> None:
    news = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "triton"}}
    assert plain(_check(provider, NAMESPACE, "ns", news).inputs) == news


def test_where_no_server_tells_a_kind_has_a_namespace_as_in_the_last_deployment(provider: Any) -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "g5"}}
    assert plain(_check(provider, NODE_POOL, "g5", pool, pool).inputs) == pool
    assert plain(_check(provider, NODE_POOL, "g5", pool).inputs)["metadata"]["namespace"]


def test_secrets_stay_marked_through_check(provider: Any) -> None:
    news = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"password": secret("p")}}
    assert plain(_check(provider, CONFIG_MAP, "a", news).inputs)["data"] == {"password": secret("p")}


def _deployment(image: str, selector: str = "triton") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "triton", "namespace": "triton"},
        "spec": {
            "selector": {"matchLabels": {"app": selector}},
            "template": {"spec": {"containers": [{"name": "triton", "image": image}]}},
        },
    }


def _diff(provider: Any, type: str, old: dict[str, Any], new: dict[str, Any]) -> Any:
    return provider.Diff(provider_pb2.DiffRequest(urn=urn(type, "x"), id="a/x", old_inputs=struct(old), news=struct(new)))


def test_one_changed_value_is_shown_as_that_field(provider: Any) -> None:
    difference = _diff(provider, DEPLOYMENT, _deployment("triton:1"), _deployment("triton:2"))
    assert dict(difference.detailedDiff.items()) == {
        "spec.template.spec.containers[0].image": provider_pb2.PropertyDiff(
            kind=provider_pb2.PropertyDiff.UPDATE, inputDiff=True
        )
    }
    assert (difference.hasDetailedDiff, list(difference.replaces)) == (True, [])


def test_an_immutable_field_replaces_and_the_name_must_be_free_first(provider: Any) -> None:
    difference = _diff(provider, DEPLOYMENT, _deployment("t", "a"), _deployment("t", "b"))
    assert difference.detailedDiff["spec.selector.matchLabels.app"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE
    assert (list(difference.replaces), difference.deleteBeforeReplace) == (["spec"], True)


def test_a_changed_kubeconfig_updates_the_provider_and_another_cluster_replaces_it(provider: Any) -> None:
    def diff(old: dict[str, Any], new: dict[str, Any]) -> Any:
        return provider.DiffConfig(
            provider_pb2.DiffRequest(urn=urn("pulumi:providers:kubernetes", "k"), old_inputs=struct(old), news=struct(new))
        )

    moved = diff({"kubeconfig": "a", "clusterIdentifier": "x"}, {"kubeconfig": "b", "clusterIdentifier": "x"})
    assert (list(moved.diffs), list(moved.replaces)) == (["kubeconfig"], [])
    other = diff({"kubeconfig": "a", "clusterIdentifier": "x"}, {"kubeconfig": "a", "clusterIdentifier": "y"})
    assert list(other.replaces) == ["clusterIdentifier"]


def test_a_preview_without_an_api_server_shows_the_inputs_and_warns_once(provider: Any, engine: RecordingEngine) -> None:
    for name in ("a", "b"):
        news = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "triton"}}
        request = provider_pb2.CreateRequest(urn=urn(CONFIG_MAP, name), properties=struct(news), preview=True)
        response = provider.Create(request)
        assert (response.id, plain(response.properties)) == ("", news)
    [warning] = engine.messages("WARNING")
    assert "does not answer" in warning and "make up" in warning


def test_a_create_without_an_api_server_fails_recoverably(provider: Any) -> None:
    news = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "triton"}}
    with pytest.raises(grpc.RpcError) as error:
        provider.Create(provider_pb2.CreateRequest(urn=urn(CONFIG_MAP, "a"), properties=struct(news)))
    assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "does not answer" in error.value.details()


def _delete_config_map(engine: RecordingEngine, server: str, **config: Any) -> None:
    with provider_stub(KubernetesProvider(EngineLog(engine.address))) as stub:
        config = {"kubeconfig": json.dumps(kubeconfig(server)), **config}
        stub.Configure(provider_pb2.ConfigureRequest(args=struct(config)))
        inputs = struct({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}})
        stub.Delete(provider_pb2.DeleteRequest(urn=urn(CONFIG_MAP, "a"), id="b/a", old_inputs=inputs, properties=inputs))


def test_a_delete_without_an_api_server_fails_unless_the_cluster_is_given_up(
    engine: RecordingEngine, dead_server: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        _delete_config_map(engine, dead_server)
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true" in error.value.details()
    _delete_config_map(engine, dead_server, deleteUnreachable="true")


@pytest.mark.parametrize("type", ["kubernetes:yaml/v2:ConfigFile", "kubernetes:helm.sh/v4:Other"])
def test_types_that_are_no_objects_name_the_file_to_extend(type: str, provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        _check(provider, type, "x", {})
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert f"{type}: extend twin/plugins/kubernetes.py" in error.value.details()


def test_an_unknown_component_names_the_file_to_extend(provider: Any) -> None:
    with pytest.raises(grpc.RpcError) as error:
        provider.Construct(provider_pb2.ConstructRequest(type="kubernetes:kustomize/v2:Directory", name="x"))
    assert "extend twin/plugins/kubernetes.py" in error.value.details()


def _configure(engine: RecordingEngine, config: Any) -> str:
    with provider_stub(KubernetesProvider(EngineLog(engine.address))) as stub, pytest.raises(grpc.RpcError) as error:
        stub.Configure(provider_pb2.ConfigureRequest(args=struct({"kubeconfig": config} if config else {})))
    details: str = error.value.details()
    return details


def test_a_cluster_that_is_not_on_this_machine_is_refused(engine: RecordingEngine) -> None:
    server = "https://ABCDEF.gr7.us-west-2.eks.amazonaws.com"
    assert f"the kubeconfig's server is {server!r}" in _configure(engine, json.dumps(kubeconfig(server)))


def test_a_provider_without_a_kubeconfig_asks_for_an_explicit_one(engine: RecordingEngine) -> None:
    assert "give the resource an explicit provider" in _configure(engine, None)


def test_a_kubeconfig_without_its_context_is_named(engine: RecordingEngine) -> None:
    config = {**kubeconfig("http://127.0.0.1:1"), "current-context": "other"}
    assert _configure(engine, json.dumps(config)) == "the kubeconfig has no 'other' among its contexts"


def test_a_kubeconfig_is_its_content_or_its_path(tmp_path: Any) -> None:
    config = kubeconfig("http://127.0.0.1:1")
    file = tmp_path / "kubeconfig"
    file.write_text("current-context: twin\nusers: []\n")
    assert parse_kubeconfig(json.dumps(config)) == config
    assert parse_kubeconfig(str(file)) == {"current-context": "twin", "users": []}
    with pytest.raises(PluginError, match="No such file"):
        parse_kubeconfig(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (ApiResource("v1", "Namespace", "namespaces", False), "/api/v1/namespaces/x"),
        (ApiResource("v1", "Service", "services", True), "/api/v1/namespaces/ns/services/x"),
        (ApiResource("apps/v1", "Deployment", "deployments", True), "/apis/apps/v1/namespaces/ns/deployments/x"),
    ],
)
def test_paths_of_the_api(resource: ApiResource, path: str) -> None:
    assert resource.path("ns", "x") == path
    assert resource.path("ns") == path.removesuffix("/x")


def _release(**changes: Any) -> dict[str, Any]:
    inputs = {
        "chart": "nvidia-device-plugin",
        "version": "0.17.4",
        "repositoryOpts": {"repo": "https://nvidia.github.io/k8s-device-plugin"},
        "namespace": "nvidia",
        **changes,
    }
    return {key: value for key, value in inputs.items() if value is not None}


def test_a_good_release_gets_a_name_that_is_kept(provider: Any) -> None:
    response = _check(provider, RELEASE, "plugin", _release())
    assert _failures(response) == {}
    first = plain(response.inputs)
    assert re.fullmatch(r"plugin-[0-9a-f]{8}", first["name"])
    again = provider.Check(
        provider_pb2.CheckRequest(urn=urn(RELEASE, "plugin"), news=struct(_release()), olds=struct(first), randomSeed=b"x")
    )
    assert plain(again.inputs) == first


@pytest.mark.parametrize("version", [None, "", "latest", "0.17", ">=0.17.0", "^0.17.4"])
def test_a_release_must_pin_its_version(version: str | None, provider: Any) -> None:
    assert list(_failures(_check(provider, RELEASE, "plugin", _release(version=version)))) == ["version"]


def test_all_mistakes_of_a_release_come_at_once(provider: Any) -> None:
    failures = _failures(_check(provider, RELEASE, "x", _release(chart="unheard-of", version="latest", repositoryOpts=None)))
    assert list(failures) == ["chart", "version", "repositoryOpts.repo"]
    assert failures["chart"].startswith("unheard-of is not among the charts that are pinned (")
    assert failures["chart"].endswith("add it to spec/charts.py, and what stands for it to twin/charts/registry.py")
    assert "nvidia-device-plugin" in failures["chart"]


@pytest.mark.parametrize("url", ["nvidia.github.io/k8s-device-plugin", "oci://public.ecr.aws/karpenter", "https://", 5])
def test_what_is_no_chart_repository_is_refused_in_a_preview(provider: Any, url: Any) -> None:
    failures = _failures(_check(provider, RELEASE, "x", _release(repositoryOpts={"repo": url})))
    assert list(failures) == ["repositoryOpts.repo"]
    assert "is not a valid chart repository: give one that begins with https://" in failures["repositoryOpts.repo"]


def test_a_chart_from_a_registry_needs_no_repository(provider: Any) -> None:
    inputs = _release(chart="oci://registry.example/charts/nvidia-device-plugin", repositoryOpts=None)
    assert _failures(_check(provider, RELEASE, "x", inputs)) == {}


def test_a_previewed_release_says_what_stands_in_for_it(provider: Any, engine: RecordingEngine) -> None:
    inputs = _release(name="nvdp")
    response = provider.Create(provider_pb2.CreateRequest(urn=urn(RELEASE, "x"), properties=struct(inputs), preview=True))
    assert plain(response.properties)["status"] == UNKNOWN
    [message] = engine.messages("INFO")
    stand_in = CHARTS["nvidia-device-plugin"].stand_in
    assert message == f"twin: chart nvidia-device-plugin 0.17.4 is not installed; {stand_in}"


def test_a_release_moved_to_another_namespace_is_replaced(provider: Any) -> None:
    difference = _diff(provider, RELEASE, _release(name="a"), _release(name="a", namespace="other"))
    assert list(difference.replaces) == ["namespace"]
    assert list(_diff(provider, RELEASE, _release(), _release(version="0.18.0")).replaces) == []


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            ApiError(409, "Conflict", 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas'),
            ". Somebody else has set these fields: set them back to what the stack has (of .spec.replicas: `kubectl scale` "
            "to its number) and run it again, see docs/autoscaling.md#scaled-by-hand",
        ),
        (ApiError(409, "AlreadyExists", "it is there"), ""),
        (ApiError(422, "Invalid", "spec.replicas: must not be negative"), ""),
    ],
)
def test_fields_that_somebody_else_has_set_are_told_with_a_way_to_give_them_back(error: ApiError, remedy: str) -> None:
    inputs = {"kind": "Deployment", "metadata": {"name": "triton"}}
    assert str(kube_objects._refused(error, inputs)) == f"the API server refused Deployment triton: {error}{remedy}"


def test_a_kubeconfig_of_eks_elsewhere_becomes_the_twins_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A real stack's state has one, and nothing is sent to its cluster."""
    own = kubeconfig("https://127.0.0.1:1")
    monkeypatch.setattr(kubeconfigs, "twin_kubeconfig", lambda: own)
    monkeypatch.setenv("TWIN_HOME", str(tmp_path / "home"))
    claim.claim(tmp_path / "home")
    TwinHome(tmp_path / "home").save_endpoints(api_server_url="https://127.0.0.1:1")
    get_token = {"command": "aws", "args": ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "shared"]}
    assert kubeconfigs.instead_of_another(kubeconfig("https://example.eks.amazonaws.com", exec=get_token)) is own
    here = kubeconfig("https://127.0.0.1:1", exec=get_token)
    assert kubeconfigs.instead_of_another(here) is here
    other = kubeconfig("https://example.eks.amazonaws.com", exec={"command": "aws"})
    assert kubeconfigs.instead_of_another(other) is other
    for name, value in kubeconfigs.LOST_ACCOUNT.items():
        monkeypatch.setenv(name, value)
    assert kubeconfigs.instead_of_another(here) is own
