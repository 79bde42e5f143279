"""A release that is asked a copy of a request, by the protocol and with the very bytes of its client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc
import httpx

from console.bounded import MIB, Bounded
from modelctl.rollout.copies import answer
from modelctl.rollout.copies.answer import Answer, NoAnswer

INFER = "/inference.GRPCInferenceService/ModelInfer"
JSON_LENGTH = "Inference-Header-Content-Length"
"""The header that says how much of a body is JSON, where tensors follow it."""
KEPT_HEADERS = ("Content-Type", "Content-Encoding", JSON_LENGTH)
"""Those that say how a body is to be read. No other header of a client is sent on: keys and tokens are among them."""

_WITHOUT_TIME = frozenset({httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT})
_WITHOUT_TIME_GRPC = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    }
)
LARGEST_ANSWER = 64 * MIB
_CHANNEL_OPTIONS = (
    # A channel to one address stays with one pod; a headless Service's name stands for all of them.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True)
class Copy:
    """A request as its client sent it: over HTTP with its path and headers, over gRPC (no path) as the message."""

    model: str
    body: bytes
    path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """The server answered with an error, or with what cannot be compared."""

    why: str


@dataclass(frozen=True)
class Unanswered:
    """The server had no time, or nothing answers there, which says nothing of the release."""

    why: str


class AskedRelease:
    """Asks the Services of a release. `http` is a URL, `grpc_target` a name of gRPC's; an answer has `seconds` at most.

    `http_proxy`: the URL of what reaches Services by their names over HTTP, where this process cannot.
    """

    def __init__(self, http: str, grpc_target: str, seconds: float, http_proxy: str | None = None) -> None:
        self._url = http
        self._seconds = seconds
        # A proxy of the environment is for the world outside, never for pods.
        timeout = httpx.Timeout(seconds, connect=min(seconds, 5.0))
        transport = Bounded(httpx.HTTPTransport(trust_env=False, proxy=http_proxy), LARGEST_ANSWER)
        self._http = httpx.Client(timeout=timeout, trust_env=False, transport=transport)
        self._channel = grpc.insecure_channel(grpc_target, options=_CHANNEL_OPTIONS)
        self._infer = self._channel.unary_unary(INFER)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()
        self._channel.close()

    def ask(self, copy: Copy) -> Answer | Refused | Unanswered:
        """Return the answer to a copy, or why there is none."""
        try:
            return self._over_grpc(copy) if copy.path is None else self._over_http(copy, copy.path)
        except NoAnswer as error:
            return Refused(str(error))

    def _over_http(self, copy: Copy, path: str) -> Answer | Refused | Unanswered:
        try:
            found = self._http.post(self._url + path, content=copy.body, headers=copy.headers)
        except httpx.HTTPError as error:
            return Unanswered(type(error).__name__)
        if found.status_code != httpx.codes.OK:
            why = f"HTTP {found.status_code}"
            return Unanswered(why) if found.status_code in _WITHOUT_TIME else Refused(why)
        length = found.headers.get(JSON_LENGTH, "")
        return answer.of_http(found.content, int(length) if length.isdecimal() else None)

    def _over_grpc(self, copy: Copy) -> Answer | Refused | Unanswered:
        try:
            message: bytes = self._infer(copy.body, timeout=self._seconds)
        except grpc.RpcError as error:
            code = error.code()
            return Unanswered(code.name) if code in _WITHOUT_TIME_GRPC else Refused(code.name)
        return answer.of_grpc(message)
