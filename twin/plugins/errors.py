"""Errors of a plugin for its user, in the engine's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import status_pb2

from twin.cluster.kube_errors import KubeError

Response = TypeVar("Response")


class PluginError(Exception):
    """The operation was refused and left nothing half done; the message is one sentence for the user.

    The engine keeps its state unchanged and continues with resources that do not depend on this one.
    """

    code = grpc.StatusCode.FAILED_PRECONDITION


class NotSupported(PluginError):
    """The twin does not simulate this; the message names the file to extend."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Unfinished(PluginError):
    """The operation began and its result is unknown; the engine records it as pending."""

    code = grpc.StatusCode.UNKNOWN


class NotReady(PluginError):
    """The resource exists and is not ready: the engine keeps it in its state, fails, and continues in the next run."""

    code = grpc.StatusCode.UNKNOWN
    detail: Message | None = None
    """The part of the response for the engine; the provider fills it in."""

    def __init__(self, id: str, outputs: dict[str, Any], reasons: Sequence[str]) -> None:
        super().__init__(reasons[0])
        self.id = id
        self.outputs = outputs
        self.reasons = reasons


@dataclass(frozen=True)
class Failure:
    """An input that Check refuses. ``property`` is in the engine's path notation; empty for the whole resource."""

    property: str
    reason: str


def reporting(plugin: str, what: str, context: grpc.ServicerContext, work: Callable[[], Response]) -> Response:
    """Return the result of ``work``, or abort with a gRPC error whose message describes the exception.

    Exceptions other than PluginError and KubeError are defects of the plugin; the message names the line that raised it.
    """
    try:
        return work()
    except NotReady as error:
        if error.detail is not None:
            status = status_pb2.Status(code=error.code.value[0], message=str(error), details=[any_pb2.Any()])
            status.details[0].Pack(error.detail)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        abort(context, error.code, str(error))
    except PluginError as error:
        abort(context, error.code, str(error))
    except KubeError as error:
        abort(context, PluginError.code, str(error))
    except Exception as error:
        abort(
            context,
            grpc.StatusCode.INTERNAL,
            f"the twin's {plugin} plugin has a defect: {what} raised {type(error).__name__}: {error} at {_origin(error)}",
        )


def abort(context: grpc.ServicerContext, code: grpc.StatusCode, message: str) -> NoReturn:
    """Abort the call with an error."""
    context.abort(code, message)
    raise AssertionError("context.abort always raises")


def _origin(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
