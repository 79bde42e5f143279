"""The engine's side of a policy pack: calls the real pack process as the engine does."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from spec.versions import PROJECT
from tests.system.component.engine.recording import Recording, Registration, Values
from twin.plugins.values import RESOURCE, SIGNATURE, to_struct

START_SECONDS = 60
CALL_SECONDS = 120
_MESSAGE_BYTES = 400 * 1024 * 1024


@dataclass(frozen=True)
class Diagnostic:
    """A pack's message about one policy. `level`: mandatory or advisory."""

    policy: str
    level: str
    severity: str
    message: str
    urn: str

    def __str__(self) -> str:
        return f"[{self.level}] {self.policy}: {self.message}"


class Pack:
    """A running policy pack."""

    def __init__(self, stub: analyzer_pb2_grpc.AnalyzerStub) -> None:
        self._stub = stub

    def policies(self) -> dict[str, analyzer_pb2.PolicyInfo]:
        """Return the pack's description of each of its policies, by name."""
        info = self._stub.GetAnalyzerInfo(empty_pb2.Empty(), timeout=CALL_SECONDS)
        return {policy.name: policy for policy in info.policies}

    def configure(self, configuration: Mapping[str, Mapping[str, Any]]) -> None:
        """Configure policies as `--policy-pack-config` does: policy -> property -> value."""
        request = analyzer_pb2.ConfigureAnalyzerRequest(
            policyConfig={
                name: analyzer_pb2.PolicyConfig(
                    enforcementLevel=self.policies()[name].enforcementLevel, properties=to_struct(properties)
                )
                for name, properties in configuration.items()
            }
        )
        self._stub.Configure(request, timeout=CALL_SECONDS)

    def configure_stack(self, stack: str, config: Mapping[str, str]) -> None:
        """Describe the stack as the engine does before the first resource. `config`: full names of keys -> text."""
        request = analyzer_pb2.AnalyzerStackConfigureRequest(stack=stack, project=PROJECT, config=config)
        self._stub.ConfigureStack(request, timeout=CALL_SECONDS)

    def judge_resources(self, registrations: Iterable[Registration], recording: Recording) -> list[Diagnostic]:
        """Return the pack's findings about each resource, from the inputs that the provider has checked."""
        by_urn = {item.urn: item for item in recording.registrations}
        found = []
        for item in registrations:
            request = analyzer_pb2.AnalyzeRequest(
                type=item.type,
                name=item.name,
                urn=item.urn,
                # The constructor of a remote component registers it without its original inputs.
                properties=to_struct({} if item.remote else _sent(item.checked or item.inputs)),
                options=_options(item),
                provider=_provider(item, by_urn),
            )
            response = self._stub.Analyze(request, timeout=CALL_SECONDS)
            found += [_diagnostic(one, item.urn) for one in response.diagnostics]
        return found

    def judge_stack(self, registrations: Iterable[Registration]) -> list[Diagnostic]:
        """Return the pack's findings about all resources together, from their outputs."""
        resources = [
            analyzer_pb2.AnalyzerResource(
                type=item.type,
                name=item.name,
                urn=item.urn,
                properties=to_struct(_sent(_outputs(item))),
                options=_options(item),
                parent=item.parent,
                propertyDependencies={
                    key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns) for key, urns in item.sources.items()
                },
            )
            for item in registrations
        ]
        response = self._stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources), timeout=CALL_SECONDS)
        return [_diagnostic(one, "") for one in response.diagnostics]

    def judge(self, recording: Recording) -> list[Diagnostic]:
        """Return all findings of a run: about every resource, then about the stack."""
        everything = recording.registrations
        return [*self.judge_resources(everything, recording), *self.judge_stack(everything)]


@contextmanager
def running(folder: Path) -> Iterator[Pack]:
    """Start the pack in `folder` as a language host does, and stop it at the end. Raises AssertionError with its output."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")},
    )
    try:
        port = _port(process)
        options = [("grpc.max_send_message_length", _MESSAGE_BYTES), ("grpc.max_receive_message_length", _MESSAGE_BYTES)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield Pack(analyzer_pb2_grpc.AnalyzerStub(channel))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=START_SECONDS)


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not selector.select(timeout=0.2):
            assert time.monotonic() < deadline, f"the policy pack has said no port after {START_SECONDS} s"
    line = process.stdout.readline().decode()
    if not line.strip():
        _, errors = process.communicate(timeout=START_SECONDS)
        raise AssertionError(f"the policy pack ended with {process.returncode}:\n{errors.decode()}")
    return int(line)


def _sent(value: Any) -> Any:
    """Convert a value as the engine does for packs: a reference to a resource becomes the resource's id."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == RESOURCE:
            return value.get("id") or value["urn"]
        return {key: _sent(member) for key, member in value.items()}
    return [_sent(member) for member in value] if isinstance(value, list) else value


def _options(item: Registration) -> analyzer_pb2.AnalyzerResourceOptions:
    return analyzer_pb2.AnalyzerResourceOptions(protect=item.protect, ignoreChanges=item.ignore_changes, parent=item.parent)


def _outputs(item: Registration) -> Values:
    """Return the outputs, or the inputs of a resource that a test has added."""
    if item.remote or not item.known:
        return item.outputs
    return item.outputs or item.checked or item.inputs


def _provider(item: Registration, by_urn: Mapping[str, Registration]) -> analyzer_pb2.AnalyzerProviderResource | None:
    provider = by_urn.get(item.provider.rpartition("::")[0])
    if provider is None:
        return None
    return analyzer_pb2.AnalyzerProviderResource(
        type=provider.type, name=provider.name, urn=provider.urn, properties=to_struct(provider.inputs)
    )


def _diagnostic(raw: analyzer_pb2.AnalyzeDiagnostic, urn: str) -> Diagnostic:
    return Diagnostic(
        policy=raw.policyName,
        level=analyzer_pb2.EnforcementLevel.Name(raw.enforcementLevel).lower(),
        severity=analyzer_pb2.PolicySeverity.Name(raw.severity).rpartition("_")[2].lower(),
        message=raw.message,
        urn=raw.urn or urn,
    )
