"""Transforms of resources: sends a registration to the program's transforms, as the engine does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import grpc
from pulumi.runtime.proto import callback_pb2, callback_pb2_grpc, resource_pb2

from tests.system.component.engine.recording import Registration
from twin.plugins.values import from_struct, to_struct, unwrap

_SECONDS = 60


def transformed(registration: Registration, callbacks: Iterable[callback_pb2.Callback]) -> Registration:
    """Return the registration after the transforms, the nearest first."""
    for callback in callbacks:
        request = resource_pb2.TransformRequest(
            type=registration.type,
            name=registration.name,
            custom=registration.custom,
            parent=registration.parent,
            properties=to_struct(registration.inputs),
            options=resource_pb2.TransformResourceOptions(
                protect=registration.protect,
                depends_on=registration.depends_on,
                provider=registration.provider,
                ignore_changes=registration.ignore_changes,
            ),
        )
        with grpc.insecure_channel(callback.target) as channel:
            answer = callback_pb2_grpc.CallbacksStub(channel).Invoke(
                callback_pb2.CallbackInvokeRequest(token=callback.token, request=request.SerializeToString()),
                timeout=_SECONDS,
            )
        response = resource_pb2.TransformResponse.FromString(answer.response)
        registration = replace(
            registration,
            inputs=dict(unwrap(from_struct(response.properties)).value),
            protect=response.options.protect,
            depends_on=tuple(sorted(response.options.depends_on)),
            ignore_changes=tuple(response.options.ignore_changes),
        )
    return registration
