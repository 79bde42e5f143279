"""Pulumi's official Kubernetes provider instead of the twin's, with `TWIN_OFFICIAL_KUBERNETES=1`.

The engine sees one process. It forwards every call, byte for byte, to the official provider, its child process. It answers
calls about a `helm.v3.Release` itself, like the twin's provider, because chart repositories cannot be reached here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from google.protobuf.message import Message
from pulumi.runtime.proto import provider_pb2

from twin.host import tools
from twin.plugins import releases
from twin.plugins.errors import abort
from twin.plugins.kubernetes import KubernetesProvider
from twin.plugins.server import OPTIONS, EngineLog, engine_address, serve

FAMILY, PROGRAM = "pulumi-kubernetes", "pulumi-resource-kubernetes"
SERVICE = "/pulumirpc.ResourceProvider/"
_OF_A_RESOURCE: dict[str, type[Message]] = {
    "Check": provider_pb2.CheckRequest,
    "Diff": provider_pb2.DiffRequest,
    "Create": provider_pb2.CreateRequest,
    "Read": provider_pb2.ReadRequest,
    "Update": provider_pb2.UpdateRequest,
    "Delete": provider_pb2.DeleteRequest,
}
_OF_BOTH: dict[str, type[Message]] = {"Configure": provider_pb2.ConfigureRequest, "Cancel": empty_pb2.Empty}
"""The twin's provider needs these too. It refuses a cluster that is not on loopback before the official one sees it."""


class Proxy(grpc.GenericRpcHandler):
    """Forwards calls to the official provider, and calls about a Helm release to the twin's."""

    def __init__(self, twin: KubernetesProvider, official: grpc.Channel) -> None:
        self._twin = twin
        self._official = official

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call of the provider's service, None for any other."""
        method = handler_call_details.method
        if not method.startswith(SERVICE):
            return None
        name = method.removeprefix(SERVICE)
        forward = self._official.unary_unary(method)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._answer(name, forward, request, context))

    def _answer(self, name: str, forward: Callable[[bytes], bytes], request: bytes, context: grpc.ServicerContext) -> bytes:
        if name in _OF_A_RESOURCE:
            call: Any = _OF_A_RESOURCE[name].FromString(request)
            if call.urn.split("::")[2].rpartition("$")[2] == releases.TOKEN:
                answer: Message = getattr(self._twin, name)(call, context)
                return answer.SerializeToString()
        elif name in _OF_BOTH:
            getattr(self._twin, name)(_OF_BOTH[name].FromString(request), context)
        try:
            return forward(request)
        except grpc.RpcError as error:
            failed: Any = error
            context.set_trailing_metadata(failed.trailing_metadata() or ())  # the half-created object
            abort(context, failed.code(), failed.details())


def start(program: Path, engine: str) -> tuple[subprocess.Popen[str], int]:
    """Start the official provider for an engine; return the process and its port on loopback."""
    process = subprocess.Popen([program, engine], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    if not port.isdigit():
        sys.exit(f"{program} exited with {process.wait()} before it listened")
    return process, int(port)


def _leave_on_signals(child: subprocess.Popen[str]) -> None:
    """Terminate the official provider, then exit silently, when the engine stops its plugins."""

    def leave(signum: int, _frame: object) -> None:
        child.terminate()
        os._exit(128 + signum)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)


def main() -> None:
    """Run the plugin's process."""
    engine = engine_address(sys.argv[1:])
    built = tools.FAMILIES[FAMILY].programs()
    if not built.there():
        sys.exit(f"the official Kubernetes provider is not built; run `python3 -m twin.host.tools {FAMILY}`")
    child, port = start(built.paths()[PROGRAM], engine)
    _leave_on_signals(child)
    twin = KubernetesProvider(EngineLog(engine), replaces_others=False)
    proxy = Proxy(twin, grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS))
    serve(lambda server: server.add_generic_rpc_handlers((proxy,)))


if __name__ == "__main__":
    main()
