"""The program with a defect for each policy: it calls `seed` first, which adds the defects to its registrations.

`_Monitor` changes the program's own registrations on their way to the engine. The registrations of a component's provider
(a chart's objects, the cluster) pass no code of the program: the engine calls `_Transform` for them.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pulumi
from pulumi.runtime.config import CONFIG
from pulumi.runtime.proto import callback_pb2, callback_pb2_grpc, resource_pb2
from pulumi.runtime.settings import SETTINGS

from tests.system.component.policy_defects import DEFECTS, Seeded
from twin.plugins.values import UNKNOWN, from_struct, to_struct

KUBECONFIG = "kubernetes:kubeconfig"
"""The setting that gives the cluster to the engine's default Kubernetes provider."""
_GONE = "seeded:index:Gone"
"""A type without policies. It replaces a removed resource, so other resources can still refer to it."""


def seed() -> None:
    """From now on, send each resource to the engine with its defects, and add the resources that defects add.

    The added resources have no provider, because it would refuse them: the twin's provider has no IAM keys, image
    repositories and SSH keys, and no add-on without a version. Of a second cluster the policy needs only the version.
    """
    # The program refuses unknown settings.
    CONFIG.get().pop(KUBECONFIG)
    seeds, monitor = _Seeds(), SETTINGS.monitor
    server = grpc.server(ThreadPoolExecutor())
    callback_pb2_grpc.add_CallbacksServicer_to_server(_Transform(seeds), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monitor.RegisterStackTransform(callback_pb2.Callback(target=f"127.0.0.1:{port}", token="defects"))
    SETTINGS.monitor = _Monitor(monitor, seeds, server)
    for defect in DEFECTS.values():
        if defect.adds:
            pulumi.ComponentResource(defect.adds, defect.resource, defect.changed({}))


class _Seeds:
    """The defects that are in no resource yet. The engine also calls the transform for the monitor's resources."""

    def __init__(self) -> None:
        self._left = list(DEFECTS.values())
        self._lock = threading.Lock()

    def take(self, type: str, name: str, custom: bool) -> list[Seeded]:
        with self._lock:
            taken = [defect for defect in self._left if defect.changes(type, name, custom)]
            self._left = [defect for defect in self._left if defect not in taken]
        return taken


class _Monitor:
    """The engine's resource monitor, as the program's SDK sees it."""

    def __init__(self, monitor: Any, seeds: _Seeds, server: grpc.Server) -> None:
        self._monitor = monitor
        self._seeds = seeds
        self._urns: dict[str, str] = {}
        self._server = server  # it stops when it has no reference

    def __getattr__(self, name: str) -> Any:
        return getattr(self._monitor, name)

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        for defect in self._seeds.take(request.type, request.name, request.custom):
            self._put_into(request, defect)
        response = self._monitor.RegisterResource(request)
        self._urns[request.name] = response.urn
        return response

    def _put_into(self, request: resource_pb2.RegisterResourceRequest, defect: Seeded) -> None:
        if defect.change is None:
            request.type, request.custom = _GONE, False
            return
        properties = defect.changed(from_struct(request.object))
        for key, name in defect.sources.items():
            properties[key] = UNKNOWN
            request.propertyDependencies[key].urns[:] = [self._urns[name]]
        for key in request.propertyDependencies.keys() - properties.keys():
            del request.propertyDependencies[key]
        request.object.CopyFrom(to_struct(properties))
        request.protect = defect.options.get("protect", request.protect)
        if "provider" in defect.options:
            request.provider = ""  # the default provider


class _Transform(callback_pb2_grpc.CallbacksServicer):
    """The engine calls it for every resource, when all its other properties are known."""

    def __init__(self, seeds: _Seeds) -> None:
        self._seeds = seeds

    def Invoke(
        self, request: callback_pb2.CallbackInvokeRequest, context: grpc.ServicerContext
    ) -> callback_pb2.CallbackInvokeResponse:
        resource = resource_pb2.TransformRequest.FromString(request.request)
        properties = from_struct(resource.properties)
        for defect in self._seeds.take(resource.type, resource.name, resource.custom):
            properties = defect.changed(properties)
            if "ignore_changes" in defect.options:
                resource.options.ignore_changes[:] = defect.options["ignore_changes"]
        response = resource_pb2.TransformResponse(properties=to_struct(properties), options=resource.options)
        return callback_pb2.CallbackInvokeResponse(response=response.SerializeToString())
