"""Send copies of requests to a release, by the client's protocol and with the client's bytes."""

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
"""The header with the length of the JSON part of a body that also has binary tensors."""
KEPT_HEADERS = ("Content-Type", "Content-Encoding", JSON_LENGTH)
"""Headers that describe the encoding of a body. Other client headers are not forwarded, because they may hold keys and
tokens."""

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
    # A channel to one address stays with one pod; the name of a headless Service resolves to all of them.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True)
class Copy:
    """A request as its client sent it. Over HTTP it has path and headers; over gRPC it is the message, without a path."""

    model: str
    body: bytes
    path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """The server returned an error, or a response that cannot be compared."""

    why: str


@dataclass(frozen=True)
class Unanswered:
    """The server had no time, or did not respond; neither says anything about the release."""

    why: str


class AskedRelease:
    """Send requests to the Services of a release.

    `http` is a URL, `grpc_target` a gRPC name. A request times out after `seconds`. `http_proxy` is the URL of an HTTP proxy
    that reaches Services by name, for processes that cannot.
    """

    def __init__(self, http: str, grpc_target: str, seconds: float, http_proxy: str | None = None) -> None:
        self._url = http
        self._seconds = seconds
        # A proxy from the environment serves external hosts, never pods.
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
        """Return the response to a copy, or why there is none."""
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
