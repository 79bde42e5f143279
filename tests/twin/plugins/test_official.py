"""The proxy before the official Kubernetes provider, with a fake that records its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, empty_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from tests.twin.plugins.recording_engine import RecordingEngine, plain, recording_engine, struct, urn
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.official import Proxy
from twin.plugins.server import EngineLog

CONFIG_MAP, RELEASE = "kubernetes:core/v1:ConfigMap", "kubernetes:helm.sh/v3:Release"
PLUGIN = {
    "chart": "nvidia-device-plugin",
    "version": "0.17.4",
    "namespace": "kube-system",
    "repositoryOpts": {"repo": "https://nvidia.github.io/k8s-device-plugin"},
}


class Recording(provider_pb2_grpc.ResourceProviderServicer):
    """Records calls. Its create fails half-way, like for an object that is not ready."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version="4.24.0")

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        self.calls.append("Configure")
        return provider_pb2.ConfigureResponse(acceptSecrets=True)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        self.calls.append(f"Check {request.urn.rpartition('::')[2]}")
        return provider_pb2.CheckResponse(inputs=struct({"by": "official"}))

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        failed = provider_pb2.ErrorResourceInitFailed(id="triton/settings", reasons=["timed out"])
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message="not ready", details=[any_pb2.Any()])
        status.details[0].Pack(failed)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, "not ready")

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.calls.append("Cancel")
        return empty_pb2.Empty()


@contextmanager
def served(add: Any) -> Iterator[grpc.Channel]:
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        server.stop(None).wait()


@pytest.fixture
def engine() -> Iterator[RecordingEngine]:
    with recording_engine() as engine:
        yield engine


@pytest.fixture
def official() -> Recording:
    return Recording()


@pytest.fixture
def twin(engine: RecordingEngine) -> KubernetesProvider:
    return KubernetesProvider(EngineLog(engine.address), replaces_others=False)


@pytest.fixture
def proxy(twin: KubernetesProvider, official: Recording) -> Iterator[Any]:
    with (
        served(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(official, server)) as behind,
        served(lambda server: server.add_generic_rpc_handlers((Proxy(twin, behind),))) as channel,
    ):
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def configure(proxy: Any, server: str, user: dict[str, Any] | None = None) -> None:
    content = {
        "current-context": "twin",
        "contexts": [{"name": "twin", "context": {"cluster": "twin", "user": "admin"}}],
        "clusters": [{"name": "twin", "cluster": {"server": server}}],
        "users": [{"name": "admin", "user": user or {"token": "t"}}],
    }
    proxy.Configure(provider_pb2.ConfigureRequest(args=struct({"kubeconfig": json.dumps(content)})))


def test_a_release_is_the_twins_and_every_other_resource_the_official_providers(proxy: Any, official: Recording) -> None:
    configure(proxy, "http://127.0.0.1:1")
    release = proxy.Check(provider_pb2.CheckRequest(urn=urn(RELEASE, "plugin"), news=struct(PLUGIN), randomSeed=b"s" * 32))
    assert plain(release.inputs)["chart"] == "nvidia-device-plugin"
    other = proxy.Check(provider_pb2.CheckRequest(urn=urn(CONFIG_MAP, "settings"), news=struct({})))
    assert plain(other.inputs) == {"by": "official"}
    assert official.calls == ["Configure", "Check settings"]


def test_what_is_no_call_about_a_resource_is_the_official_providers(proxy: Any) -> None:
    assert proxy.GetPluginInfo(empty_pb2.Empty()).version == "4.24.0"


def test_an_error_arrives_with_what_is_half_created(proxy: Any) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        proxy.Create(provider_pb2.CreateRequest(urn=urn(CONFIG_MAP, "settings"), properties=struct({})))
    error: Any = failure.value
    assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, "not ready")
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    half_created = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(half_created)
    assert half_created.id == "triton/settings"


def test_a_call_that_the_official_provider_lacks_is_refused_in_its_place(proxy: Any) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        proxy.Handshake(provider_pb2.ProviderHandshakeRequest())
    assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_official_provider_never_sees_a_cluster_outside_of_this_machine(proxy: Any, official: Recording) -> None:
    get_token = {"exec": {"command": "aws", "args": ["eks", "get-token", "--cluster-name", "prod"]}}
    for user in (None, get_token):
        with pytest.raises(grpc.RpcError, match="work on this machine only"):
            configure(proxy, "https://203.0.113.1", user)
    assert official.calls == []


def test_both_providers_stop_what_they_wait_for(proxy: Any, official: Recording, twin: KubernetesProvider) -> None:
    proxy.Cancel(empty_pb2.Empty())
    assert official.calls == ["Cancel"]
    assert twin.cancelled.is_set()
