"""The engine's side of a plugin: a resource monitor and a log that record their calls."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from twin.plugins.values import from_struct, to_struct


@dataclass
class RecordingEngine(engine_pb2_grpc.EngineServicer, resource_pb2_grpc.ResourceMonitorServicer):
    """Registers everything at once: a custom resource gets its inputs as outputs and ``id-<name>`` as its id.

    ``computed`` are further outputs by type. ``refuse`` names resources whose registration fails like in the engine, with
    this code and message.
    """

    address: str = ""
    preview: bool = False
    registrations: list[resource_pb2.RegisterResourceRequest] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    logged: list[tuple[str, str]] = field(default_factory=list)
    computed: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuse: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)

    def messages(self, severity: str) -> list[str]:
        """Return the messages with a severity such as ``ERROR``."""
        return [message for found, message in self.logged if found == severity]

    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.logged.append((engine_pb2.LogSeverity.Name(request.severity), request.message))
        return empty_pb2.Empty()

    def GetDeploymentInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> resource_pb2.DeploymentInfo:
        return resource_pb2.DeploymentInfo(supportedFeatures=resource_pb2.ResourceMonitorFeature.values())

    def SupportsFeature(
        self, request: resource_pb2.SupportsFeatureRequest, context: grpc.ServicerContext
    ) -> resource_pb2.SupportsFeatureResponse:
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterResource(
        self, request: resource_pb2.RegisterResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.RegisterResourceResponse:
        if request.name in self.refuse:
            context.abort(*self.refuse[request.name])
        self.registrations.append(request)
        outputs = to_struct({**from_struct(request.object), **self.computed.get(request.type, {})})
        id = f"id-{request.name}" if request.custom and not self.preview else ""
        return resource_pb2.RegisterResourceResponse(
            urn=f"urn:pulumi:test::project::{request.type}::{request.name}", id=id, object=outputs
        )

    def Invoke(
        self, request: resource_pb2.ResourceInvokeRequest, context: grpc.ServicerContext
    ) -> resource_pb2.ResourceInvokeResponse:
        assert request.tok == "pulumi:pulumi:getResource"
        urn = from_struct(request.args)["urn"]
        response: dict[str, Any] = {"return": to_struct({"urn": urn, "state": {"arn": f"arn-of-{urn}"}})}
        return resource_pb2.ResourceInvokeResponse(**response)

    def RegisterResourceOutputs(
        self, request: resource_pb2.RegisterResourceOutputsRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        self.outputs[request.urn] = from_struct(request.outputs)
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()


@contextmanager
def recording_engine(**settings: Any) -> Iterator[RecordingEngine]:
    """Yield a recording engine on loopback."""
    engine = RecordingEngine(**settings)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(engine, server)
    engine.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield engine
    finally:
        server.stop(None).wait()


@contextmanager
def provider_stub(provider: provider_pb2_grpc.ResourceProviderServicer) -> Iterator[Any]:
    """Yield the engine's connection to a provider in this process."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
    finally:
        server.stop(None).wait()


def urn(type: str, name: str) -> str:
    """Return a URN like the engine's, for a component's child."""
    return f"urn:pulumi:test::project::triton:network:Network${type}::{name}"


struct = to_struct
plain = from_struct
