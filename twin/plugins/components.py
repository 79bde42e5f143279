"""A component provider's side of Construct: register its children with the engine's resource monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
from pulumi.runtime.proto import alias_pb2, provider_pb2, resource_pb2, resource_pb2_grpc

from twin.plugins.errors import PluginError
from twin.plugins.server import OPTIONS
from twin.plugins.values import UNKNOWN, Values, from_struct, strip_secrets, to_struct, unwrap


class EngineStopping(Exception):
    """The engine accepts no more registrations: it failed or was cancelled, and has already reported that."""


_NO_DEPENDENCIES = resource_pb2.RegisterResourceRequest.PropertyDependencies()


@dataclass(frozen=True)
class Registered:
    """A registered resource. ``id`` is UNKNOWN in a preview that creates it, "" for a component."""

    urn: str
    id: str
    outputs: Values


@dataclass(frozen=True)
class ChildOptions:
    """Resource options of a child, in addition to the options of all children of the component."""

    parent: str | None = None
    """A URN; None means the component itself."""

    depends_on: tuple[str, ...] = ()
    protect: bool | None = None
    retain_on_delete: bool = False
    ignore_changes: tuple[str, ...] = ()
    secret_outputs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    provider: str | None = None
    """A provider reference; None means the component's provider, else the engine's default provider."""


@dataclass
class Component:
    """A component under construction. ``inputs`` are plain, without marks; ``secret``: whether any was marked secret."""

    request: provider_pb2.ConstructRequest
    inputs: Values
    secret: bool
    dependencies: tuple[str, ...]
    versions: Mapping[str, str]
    """Version of the SDK by package, so that children share the program's own default provider."""

    monitor: resource_pb2_grpc.ResourceMonitorStub
    urn: str = ""
    children: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the component's logical name."""
        return self.request.name

    @property
    def preview(self) -> bool:
        """Return whether this is a preview."""
        return self.request.dryRun

    def register_self(self) -> None:
        """Register the component itself, before its children."""
        request = self.request
        response = _register(
            self.monitor,
            resource_pb2.RegisterResourceRequest(
                type=request.type,
                name=request.name,
                parent=request.parent,
                protect=request.protect,
                dependencies=request.dependencies,
                aliases=request.aliases,
                aliasSpecs=True,
                providers=request.providers,
                acceptSecrets=True,
                acceptResources=True,
                supportsPartialValues=True,
            ),
        )
        self.urn = response.urn

    def register(self, type: str, name: str, props: Mapping[str, Any], options: ChildOptions | None = None) -> Registered:
        """Register a custom resource as a child and wait for its outputs.

        Every child depends on the dependencies of the component and its inputs, so all children are deleted before those.
        The child's properties have no such dependencies; else the engine would replace all children together with any of
        these resources. Raises PluginError if the engine refuses, EngineStopping.
        """
        options = options or ChildOptions()
        package = type.partition(":")[0] if not type.startswith("pulumi:providers:") else type.rpartition(":")[2]
        is_provider = type.startswith("pulumi:providers:")
        provider = options.provider or ("" if is_provider else self.request.providers.get(package, ""))
        response = _register(
            self.monitor,
            resource_pb2.RegisterResourceRequest(
                type=type,
                name=name,
                parent=options.parent or self.urn,
                custom=True,
                object=to_struct(props),
                protect=self.request.protect if options.protect is None else options.protect,
                dependencies=sorted({*self.dependencies, *options.depends_on}),
                propertyDependencies={key: _NO_DEPENDENCIES for key in props},
                provider=provider,
                version=self.versions.get(package, ""),
                retainOnDelete=options.retain_on_delete or self.request.retainOnDelete,
                ignoreChanges=options.ignore_changes,
                additionalSecretOutputs=options.secret_outputs,
                aliases=[alias_pb2.Alias(urn=urn) for urn in options.aliases],
                aliasSpecs=True,
                acceptSecrets=True,
                acceptResources=True,
                supportsPartialValues=True,
            ),
        )
        self.children.append(response.urn)  # from any thread
        return Registered(response.urn, response.id or UNKNOWN, strip_secrets(from_struct(response.object)))

    def resolve(self, urn: str) -> Values:
        """Return the outputs of a resource of the program that was given as a reference.

        Raises PluginError if the resource does not exist, EngineStopping.
        """
        with _answers(f"the resource {urn}"):
            response = self.monitor.Invoke(
                resource_pb2.ResourceInvokeRequest(
                    tok="pulumi:pulumi:getResource", args=to_struct({"urn": urn}), acceptResources=True
                )
            )
        if response.failures:
            raise PluginError(f"the resource {urn}: {response.failures[0].reason}")
        state: Values = strip_secrets(from_struct(getattr(response, "return"))).get("state", {})
        return state

    def finish(self, outputs: Mapping[str, Any]) -> provider_pb2.ConstructResponse:
        """Register the component's outputs; return the response to the engine.

        Each output depends on all children, so a resource that uses one of them is deleted before any child.
        """
        state = to_struct(outputs)
        with _answers(f"the outputs of {self.name}"):
            self.monitor.RegisterResourceOutputs(resource_pb2.RegisterResourceOutputsRequest(urn=self.urn, outputs=state))
        dependencies = provider_pb2.ConstructResponse.PropertyDependencies(urns=sorted(self.children))
        return provider_pb2.ConstructResponse(
            urn=self.urn, state=state, stateDependencies={key: dependencies for key in outputs}
        )


def construct(
    request: provider_pb2.ConstructRequest,
    versions: Mapping[str, str],
    build: Callable[[Component], provider_pb2.ConstructResponse],
) -> provider_pb2.ConstructResponse:
    """Return the response of ``build`` for the component of a Construct request."""
    component = _open(request, versions)
    try:
        return build(component)
    except EngineStopping:
        # The engine no longer needs this response; an error would only appear next to the error that stopped the engine.
        return provider_pb2.ConstructResponse(urn=component.urn)


def _open(request: provider_pb2.ConstructRequest, versions: Mapping[str, str]) -> Component:
    plain: Values = {}
    dependencies = set(request.dependencies)
    secret = False
    for key, value in from_struct(request.inputs).items():
        unwrapped = unwrap(value)
        plain[key] = unwrapped.value
        secret = secret or unwrapped.secret
        dependencies |= unwrapped.dependencies
    for listed in request.inputDependencies.values():
        dependencies.update(listed.urns)
    channel = grpc.insecure_channel(request.monitorEndpoint, options=OPTIONS)
    return Component(
        request=request,
        inputs=plain,
        secret=secret,
        dependencies=tuple(sorted(dependencies)),
        versions=versions,
        monitor=resource_pb2_grpc.ResourceMonitorStub(channel),
    )


def _register(
    monitor: resource_pb2_grpc.ResourceMonitorStub, request: resource_pb2.RegisterResourceRequest
) -> resource_pb2.RegisterResourceResponse:
    with _answers(f"{request.type} {request.name}"):
        return monitor.RegisterResource(request)


@contextmanager
def _answers(what: str) -> Iterator[None]:
    """Convert the monitor's errors about ``what`` into PluginError or EngineStopping."""
    try:
        yield
    except grpc.RpcError as error:
        # The error that a stub raises is also the failed call, although grpc's types do not say so.
        call = cast(grpc.Call, error)
        if call.code() == grpc.StatusCode.UNAVAILABLE:
            raise EngineStopping from error
        raise PluginError(f"{what}: {call.details()}") from error


def urns(registered: Iterable[Registered]) -> tuple[str, ...]:
    """Return the URNs of resources, for ``depends_on``."""
    return tuple(resource.urn for resource in registered)
