"""The resource monitor: serves the program as the engine does, without an engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import callback_pb2, resource_pb2

from tests.system.component.engine import chart, providers
from tests.system.component.engine.aliases import previous_urns
from tests.system.component.engine.providers import Applied, Aws, Refused
from tests.system.component.engine.recording import Recording, Registration, Values
from tests.system.component.engine.transforms import transformed
from twin.eks.expansion import ExpansionError, expand_cluster
from twin.plugins.values import UNKNOWN, from_struct, has_unknown, to_struct, unwrap

_STACK = "pulumi:pulumi:Stack"
_EKS_CLUSTER = "eks:index:Cluster"
_KUBECONFIG = {"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []}


class _Failed(grpc.RpcError):
    """A failed call, as the SDK gets it from the engine; the program may catch the resulting exception."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return str(self)


class RecordingMonitor(MockMonitor):
    """Applies (or plans) each registration and records it.

    Collects a refused resource in ``failures`` and makes its outputs unknown. As under the real engine, the program
    continues with independent resources, and the dependent ones are skipped.
    """

    def __init__(self, aws: Aws, *, project: str, stack: str, root: Path, preview: bool) -> None:
        super().__init__(mocks=None)  # type: ignore[arg-type]  # nothing of the base that calls mocks is left
        self.recording = Recording()
        self.failures: list[tuple[str, str]] = []
        self._aws = aws
        self._prefix = f"urn:pulumi:{stack}::{project}::"
        self._root = root
        self._preview = preview
        self._by_urn: dict[str, Registration] = {}
        self._broken: set[str] = set()
        self._transforms: dict[str, list[callback_pb2.Callback]] = {}
        # The SDK registers from several threads, and moto's backends are not thread-safe.
        self._lock = threading.RLock()

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        with self._lock:
            if request.type == _STACK:
                return resource_pb2.RegisterResourceResponse(urn=self._urn("", request.type, request.name))
            registration = self._registration(request)
            self._transforms[registration.urn] = list(request.transforms)
            if self._must_skip(registration, request.dependencies):
                self._broken.add(registration.urn)
                return self._response(registration, resource_pb2.Result.FAIL)
            try:
                registration = self._apply(registration)
            except (Refused, ExpansionError) as error:
                self._fail(registration, str(error))
                return self._response(registration, resource_pb2.Result.FAIL)
            return self._response(registration, resource_pb2.Result.SUCCESS)

    def RegisterResourceOutputs(self, request: resource_pb2.RegisterResourceOutputsRequest) -> empty_pb2.Empty:
        if f"::{_STACK}::" in request.urn:
            self.recording.exports = dict(unwrap(from_struct(request.outputs)).value)
        return empty_pb2.Empty()

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:
        arguments = dict(unwrap(from_struct(request.args)).value)
        with self._lock:
            if request.tok == "pulumi:pulumi:getResource":
                found = self._by_urn[arguments["urn"]]
                result: Values = {"urn": found.urn, "id": found.id, "state": found.outputs}
            else:
                try:
                    result = self._aws.invoke(request.tok, arguments)
                except Refused as error:
                    raise _Failed(str(error)) from error
        response: dict[str, Any] = {"return": to_struct(result)}  # a Python keyword, so it cannot be a keyword argument
        return resource_pb2.ResourceInvokeResponse(**response)

    def _registration(self, request: resource_pb2.RegisterResourceRequest) -> Registration:
        own = self._urn(request.parent, request.type, request.name)
        through_inputs = {urn for listed in request.propertyDependencies.values() for urn in listed.urns}
        return Registration(
            urn=own,
            type=request.type,
            name=request.name,
            inputs=dict(unwrap(from_struct(request.object)).value),
            custom=request.custom,
            remote=request.remote,
            parent=request.parent,
            # A remote component gets its providers by package, a custom resource gets its own provider.
            provider=request.provider or request.providers.get(request.type.partition(":")[0], ""),
            protect=request.protect,
            retain_on_delete=request.retainOnDelete,
            delete_before_replace=request.deleteBeforeReplace,
            ignore_changes=tuple(request.ignoreChanges),
            depends_on=tuple(sorted(set(request.dependencies) - through_inputs)),
            sources={key: tuple(sorted(listed.urns)) for key, listed in request.propertyDependencies.items()},
            aliases=previous_urns(own, request.aliases, request.parent, self._aliases_of(request.parent)),
        )

    def _must_skip(self, registration: Registration, dependencies: Iterable[str]) -> bool:
        """Return whether one of its dependencies was refused. A component passes the result on to its children."""
        applied = registration.custom or registration.remote
        unknown = applied and not self._preview and has_unknown(registration.inputs)
        return unknown or bool(self._broken & {*dependencies, registration.parent})

    def _apply(self, registration: Registration) -> Registration:
        if registration.urn in self._by_urn:
            raise Refused("a second resource with this URN; give one of them another name")
        registration = replace(registration, known=self._configured(registration))
        if registration.custom:
            return self._record(registration, self._custom(registration))
        recorded = self._record(registration, Applied("", {}, {}))
        if registration.remote:
            outputs = self._expand(registration)
            recorded = replace(recorded, outputs=outputs)
            self._by_urn[recorded.urn] = recorded
        return recorded

    def _configured(self, registration: Registration) -> bool:
        """Return whether its provider's configuration is known. The engine calls no other provider."""
        provider = self._by_urn.get(registration.provider.rpartition("::")[0])
        return provider is None or not has_unknown(provider.inputs)

    def _custom(self, registration: Registration) -> Applied:
        if not registration.known:
            return Applied("", {}, registration.inputs)
        package = registration.type.partition(":")[0]
        if registration.type.startswith("pulumi:providers:"):
            return providers.provider_resource(registration.urn, registration.inputs, preview=self._preview)
        if package == "aws":
            urn, name = registration.urn, registration.name
            return self._aws.apply(registration.type, urn, name, registration.inputs, preview=self._preview)
        if package == "kubernetes":
            return providers.kubernetes_object(registration.inputs, preview=self._preview)
        raise Refused(f"the test engine has no provider {package}: extend tests/system/component/engine/monitor.py")

    def _expand(self, component: Registration) -> Values:
        def child(
            type: str,
            name: str,
            props: Mapping[str, Any],
            *,
            parent: str | None = None,
            depends_on: tuple[str, ...] = (),
            ignore_changes: tuple[str, ...] = (),
        ) -> Registration:
            urn = self._urn(parent or component.urn, type, name)
            own = Registration(
                urn=urn,
                type=type,
                name=name,
                inputs=dict(props),
                custom=True,
                parent=parent or component.urn,
                provider=component.provider if type.startswith(component.type.partition(":")[0]) else "",
                protect=component.protect,
                ignore_changes=ignore_changes,
                depends_on=tuple(sorted(depends_on)),
                aliases=previous_urns(urn, (), parent or component.urn, self._aliases_of(parent or component.urn)),
            )
            return self._apply(transformed(own, self._transforms_of_ancestors(own)))

        if component.type == _EKS_CLUSTER:
            return expand_cluster(
                component.name,
                component.inputs,
                child,
                kubeconfig=self._kubeconfig,
                resolve=lambda urn: self._by_urn[urn].outputs,
            )
        if component.type == chart.TOKEN:
            if not component.known:
                return {}
            chart.expand(self._root, component.name, component.inputs, child)
            return {}
        raise Refused(f"the test engine has no component {component.type}: extend tests/system/component/engine/monitor.py")

    def _kubeconfig(self, _cluster: Mapping[str, Any]) -> Any:
        return _KUBECONFIG

    def _aliases_of(self, urn: str) -> tuple[str, ...]:
        return self._by_urn[urn].aliases if urn in self._by_urn else ()

    def _transforms_of_ancestors(self, registration: Registration) -> Iterator[callback_pb2.Callback]:
        parent = registration.parent
        while parent in self._by_urn:
            yield from self._transforms.get(parent, ())
            parent = self._by_urn[parent].parent

    def _record(self, registration: Registration, applied: Applied) -> Registration:
        done = replace(registration, id=applied.id, outputs=applied.outputs, checked=applied.checked)
        self._by_urn[done.urn] = done
        self.recording.registrations.append(done)
        return done

    def _fail(self, registration: Registration, message: str) -> None:
        self._broken.add(registration.urn)
        self.failures.append((f"{registration.type} {registration.name}", message))

    def _response(self, done: Registration, result: Any) -> resource_pb2.RegisterResourceResponse:
        found = self._by_urn.get(done.urn)
        outputs = found.outputs if found is not None and result == resource_pb2.Result.SUCCESS else {}
        return resource_pb2.RegisterResourceResponse(
            urn=done.urn, id=found.id if found is not None else "", object=to_struct(outputs), result=result
        )

    def _urn(self, parent: str, type: str, name: str) -> str:
        """Build the URN as the engine does: the types of all parents, without the stack's."""
        parent_type = parent.split("::")[2] if parent else _STACK
        qualified = type if parent_type in ("", _STACK) else f"{parent_type}${type}"
        return f"{self._prefix}{qualified}::{name}"


class FirstPreview(RecordingMonitor):
    """A preview without a known kubeconfig, as on AWS before the cluster exists."""

    def _kubeconfig(self, _cluster: Mapping[str, Any]) -> Any:
        return UNKNOWN
