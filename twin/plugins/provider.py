"""Base of the twin's resource providers: convert between the engine's protocol and plain Python values.

It uses the raw gRPC servicer because the SDK's own provider classes cannot return unknown values
(docs/facts/pulumi.md#provider-sdk). A provider overrides the methods in lower case.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from twin.plugins import differences
from twin.plugins.errors import Failure, NotReady, NotSupported, reporting
from twin.plugins.server import EngineLog
from twin.plugins.values import Values, annotate_secrets, from_struct, strip_secrets, to_struct

_KINDS = provider_pb2.PropertyDiff.Kind


@dataclass(frozen=True)
class Resource:
    """The resource of an operation."""

    urn: str
    type: str
    name: str
    """The logical name in the program."""

    id: str = ""

    ignored: tuple[str, ...] = ()
    """In an update, paths like `spec.replicas` whose changes the program ignores: the engine sends their old inputs."""


@dataclass(frozen=True)
class Plan:
    """The planned effect of an update."""

    changes: list[differences.Change]
    replace: list[differences.Path] = field(default_factory=list)
    """Prefixes of paths whose change replaces the resource."""

    delete_first: bool = False
    """Whether a replacement deletes the old resource before it creates the new one."""


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """One provider process. ``log`` is the engine's log."""

    package: str
    """The Pulumi package that it replaces."""

    distribution: str
    """The Python distribution of that package's SDK; the provider reports its version."""

    identity: frozenset[str] = frozenset()
    """Configuration whose change means another system, so that the provider and all its resources are replaced."""

    accepts_secrets = False
    """Whether the engine sends secrets marked, which is required for a provider that constructs components."""

    def __init__(self, log: EngineLog) -> None:
        self.log = log
        self.cancelled = threading.Event()

    # Methods that a provider implements.

    def configure(self, config: Values) -> None:
        """Set the provider's configuration. Raises PluginError."""

    def check_config(self, config: Values) -> list[Failure]:
        """Return the problems of the provider's configuration, before it is used."""
        return []

    def check(self, resource: Resource, old: Values, new: Values, seed: bytes) -> tuple[Values, list[Failure]]:
        """Return the inputs with defaults and the physical name filled in, and their problems.

        ``old`` are the checked inputs of the last deployment, empty for a new resource.
        """
        raise NotImplementedError

    def diff(self, resource: Resource, old: Values, new: Values, state: Values) -> Plan:
        """Return the changes between the checked inputs ``old`` and ``new``."""
        raise NotImplementedError

    def preview_create(self, resource: Resource, inputs: Values) -> Values:
        """Return the outputs of a create, with UNKNOWN for values that only the create can determine."""
        raise NotImplementedError

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        """Create the resource; return its id and outputs."""
        raise NotImplementedError

    def read(self, resource: Resource, inputs: Values, state: Values) -> tuple[Values, Values] | None:
        """Return inputs and outputs of the existing resource; None if it no longer exists."""
        raise NotImplementedError

    def preview_update(self, resource: Resource, state: Values, inputs: Values) -> Values:
        """Return the outputs after an update."""
        return {**state, **inputs}

    def update(self, resource: Resource, state: Values, inputs: Values, timeout: float) -> Values:
        """Change the resource in place; return the new outputs."""
        raise NotImplementedError

    def delete(self, resource: Resource, inputs: Values, state: Values, timeout: float) -> None:
        """Delete the resource; a missing one is not an error."""
        raise NotImplementedError

    def invoke(self, token: str, arguments: Values) -> Values:
        """Return the result of a function. Raises PluginError."""
        raise NotSupported(f"the twin's {self.package} provider has no function {token}: extend {self.source()}")

    def source(self) -> str:
        """Return the file to extend, for messages."""
        return type(self).__module__.replace(".", "/") + ".py"

    # Methods of the protocol.

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        # Version comparisons ignore build metadata: the engine accepts this, and people see that it is the twin.
        return plugin_pb2.PluginInfo(version=f"{metadata.version(self.distribution)}+twin")

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        return provider_pb2.GetSchemaResponse(schema=f'{{"name": "{self.package}"}}')

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.log = EngineLog(request.address)
        return empty_pb2.Empty()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.cancelled.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        def work() -> provider_pb2.CheckResponse:
            failures = self.check_config(from_struct(request.news))
            return provider_pb2.CheckResponse(inputs=request.news, failures=_failures(failures))

        return reporting(self.package, "CheckConfig", context, work)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        changes = differences.changes(from_struct(request.old_inputs), from_struct(request.news))
        return _diff_response(Plan(changes, replace=[(option,) for option in sorted(self.identity)]))

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        def work() -> provider_pb2.ConfigureResponse:
            self.configure(strip_secrets(from_struct(request.args)))
            return provider_pb2.ConfigureResponse(
                acceptSecrets=self.accepts_secrets,
                acceptResources=True,
                acceptOutputs=True,
                supportsPreview=True,
            )

        return reporting(self.package, "Configure", context, work)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        def work() -> provider_pb2.CheckResponse:
            marked = from_struct(request.news)
            old = strip_secrets(from_struct(request.olds))
            inputs, failures = self.check(_resource(request), old, strip_secrets(marked), request.randomSeed)
            return provider_pb2.CheckResponse(
                inputs=to_struct(annotate_secrets(inputs, marked)), failures=_failures(failures)
            )

        return reporting(self.package, f"Check of {request.urn}", context, work)

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        def work() -> provider_pb2.DiffResponse:
            old, new, state = _plain(request.old_inputs, request.news, request.olds)
            return _diff_response(self.diff(_resource(request), old, new, state))

        return reporting(self.package, f"Diff of {request.urn}", context, work)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        def work() -> provider_pb2.CreateResponse:
            marked = from_struct(request.properties)
            inputs = strip_secrets(marked)
            if request.preview:
                id, outputs = "", self.preview_create(_resource(request), inputs)
            else:
                try:
                    id, outputs = self.create(_resource(request), inputs, request.timeout)
                except NotReady as error:
                    raise _half_made(error, marked) from None
            return provider_pb2.CreateResponse(id=id, properties=to_struct(annotate_secrets(outputs, marked)))

        return reporting(self.package, f"Create of {request.urn}", context, work)

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        def work() -> provider_pb2.ReadResponse:
            marked_inputs, marked_state = from_struct(request.inputs), from_struct(request.properties)
            found = self.read(_resource(request), strip_secrets(marked_inputs), strip_secrets(marked_state))
            if found is None:
                return provider_pb2.ReadResponse()
            inputs, outputs = found
            return provider_pb2.ReadResponse(
                id=request.id,
                inputs=to_struct(annotate_secrets(inputs, marked_inputs)),
                properties=to_struct(annotate_secrets(outputs, marked_state)),
            )

        return reporting(self.package, f"Read of {request.urn}", context, work)

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        def work() -> provider_pb2.UpdateResponse:
            marked = from_struct(request.news)
            state, inputs = strip_secrets(from_struct(request.olds)), strip_secrets(marked)
            if request.preview:
                outputs = self.preview_update(_resource(request), state, inputs)
            else:
                try:
                    outputs = self.update(_resource(request), state, inputs, request.timeout)
                except NotReady as error:
                    raise _half_made(error, marked) from None
            return provider_pb2.UpdateResponse(properties=to_struct(annotate_secrets(outputs, marked)))

        return reporting(self.package, f"Update of {request.urn}", context, work)

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        def work() -> empty_pb2.Empty:
            inputs, state = _plain(request.old_inputs, request.properties)
            self.delete(_resource(request), inputs, state, request.timeout)
            return empty_pb2.Empty()

        return reporting(self.package, f"Delete of {request.urn}", context, work)

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        def work() -> provider_pb2.InvokeResponse:
            result = self.invoke(request.tok, strip_secrets(from_struct(request.args)))
            response = provider_pb2.InvokeResponse()
            getattr(response, "return").CopyFrom(to_struct(result))
            return response

        return reporting(self.package, f"the function {request.tok}", context, work)


def _half_made(error: NotReady, marked: Values) -> NotReady:
    """Add the part of the resource that the engine keeps to the error, and return it."""
    error.detail = provider_pb2.ErrorResourceInitFailed(
        id=error.id,
        properties=to_struct(annotate_secrets(error.outputs, marked)),
        reasons=error.reasons,
        inputs=to_struct(marked),
    )
    return error


def _plain(*structs: Any) -> list[Values]:
    return [strip_secrets(from_struct(struct)) for struct in structs]


def _resource(request: Any) -> Resource:
    qualified, _, name = request.urn.split("::", 2)[2].partition("::")
    ignored = tuple(getattr(request, "ignoreChanges", ()))
    return Resource(request.urn, qualified.rpartition("$")[2], name, getattr(request, "id", ""), ignored)


def _failures(failures: list[Failure]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=failure.property, reason=failure.reason) for failure in failures]


def _diff_response(plan: Plan) -> provider_pb2.DiffResponse:
    detailed: Mapping[str, provider_pb2.PropertyDiff] = {
        differences.render(change.path): provider_pb2.PropertyDiff(
            kind=_kind(change, differences.starts_with(change.path, plan.replace)), inputDiff=True
        )
        for change in plan.changes
    }
    roots = sorted({str(change.path[0]) for change in plan.changes})
    replaces = sorted({str(change.path[0]) for change in plan.changes if differences.starts_with(change.path, plan.replace)})
    return provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if plan.changes else provider_pb2.DiffResponse.DIFF_NONE,
        diffs=roots,
        replaces=replaces,
        detailedDiff=detailed,
        hasDetailedDiff=True,
        deleteBeforeReplace=plan.delete_first and bool(replaces),
    )


def _kind(change: differences.Change, replaces: bool) -> Any:
    return _KINDS.Value(change.kind.upper() + ("_REPLACE" if replaces else ""))
