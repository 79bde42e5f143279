"""Call one pod's HTTP API: health, model control, config, inference, metrics.

Every method raises PodDown when nothing responds (the pod starts, ends or died), and PodHangs when no response comes in
time. It raises PodRefuses with the server's message for an error response, and its subclass PodOverloaded for status 503. If
the port forward to a pod is lost, requests that only read are sent again, and others raise ForwardBroke.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential

from console.bounded import MIB, AnswerTooLarge, Bounded
from console.port_forward import ForwardDenied, ForwardLost, PortClosed
from modelctl.cluster.admin_key import KeyUnreadable
from modelctl.rollout import metrics
from modelctl.rollout.configs import served_hash
from modelctl.rollout.fleet import FleetError, Pod
from modelctl.store import followed
from modelctl.store.followed import Followed
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

ANSWER_SECONDS = 10.0
"""The time limit in seconds for all requests except loads.

The server answers from memory, and a golden inference is one request.
"""

LARGEST_ANSWER = 64 * MIB
"""The limit for any response in bytes, because a pod's models are not trusted.

Metrics, lists and the response to one golden inference are far smaller.
"""
REOPEN_SECONDS = 15.0
"""How many seconds a lost forward is reopened: DNS drops a replaced EKS API server within seconds."""

_T = TypeVar("_T")
_ADMIN_HEADER = "x-admin-key"
_GONE = "unloaded"


class PodProblem(Failure):
    """A pod does not do what was requested. The text is one sentence that names the pod."""

    exit_code = NOT_TRIED


class PodDown(PodProblem):
    """Nothing responds."""


class PodHangs(PodProblem):
    """The pod is connected, but does not respond in time."""


class ForwardBroke(PodHangs):
    """The API server's port forward broke before the response. The pod may or may not have handled the request."""


class PodRefuses(PodProblem):
    """The server returned an error."""


class PodOverloaded(PodRefuses):
    """The queue is full, or the wait in it was too long; see docs/facts/triton-server.md#queues."""


WITHOUT_TIME = (PodHangs, PodOverloaded)
"""Under load, pods of a right release raise these errors too, so the request is sent again."""


@dataclass(frozen=True)
class IndexEntry:
    """One line of the repository index; `state` is READY, LOADING, UNLOADING or UNAVAILABLE."""

    model: str
    version: int
    state: str
    reason: str

    @property
    def failed(self) -> bool:
        """Return whether a load failed; then the server's own readiness stays 400 until it restarts.

        See docs/facts/triton-server.md#failed-load.
        """
        return self.state == "UNAVAILABLE" and self.reason not in {"", _GONE}


_INDEX = [{"name": str, "version": str, "state": str, "reason": str}]
_STATISTICS = {"model_stats": [{"name": str, "version": str}]}
_ANSWER = {"outputs": [{"name": str, "datatype": str, "shape": [int], "data": []}]}
_VERSION = re.compile(r"[0-9]{1,18}")


@cache
def _authorities() -> ssl.SSLContext:
    """Return the TLS context that all clients share. Loading the CA certificates takes longer than a request to a pod."""
    return httpx.create_ssl_context(trust_env=False)


class PodClient:
    """Sends requests to one pod. As a context manager it closes the connection, because an idle one delays the pod's
    shutdown."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        # A proxy from the environment serves external hosts, never pods.
        forwards = pod.forwards
        transport = forwards.transport() if forwards else httpx.HTTPTransport(verify=_authorities(), trust_env=False)
        self._http = httpx.Client(timeout=ANSWER_SECONDS, trust_env=False, transport=Bounded(transport, LARGEST_ANSWER))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def server_ready(self) -> bool:
        """Return the server's own readiness. It is 400 during every load and after a failed one, whatever the server
        serves."""
        return self._is("/v2/health/ready")

    def ready(self, model: str, version: int | None = None) -> bool:
        """Return whether the version (None: any) is ready."""
        return self._is(f"{_model(model, version)}/ready")

    def index(self) -> list[IndexEntry]:
        """Return all versions that the server knows; a model without versions has no entry."""
        answer = self._value(self._ask("POST", "/v2/repository/index", reads=True), _INDEX)
        return [
            IndexEntry(entry["name"], int(entry["version"]), entry.get("state") or "", entry.get("reason") or "")
            for entry in answer
            if entry.get("name") and _VERSION.fullmatch(entry.get("version") or "")
        ]

    def ready_versions(self) -> dict[str, list[int]]:
        """Return the ready versions by model."""
        found: dict[str, list[int]] = {}
        # The statistics are used because the index requires the admin key.
        for entry in self._value(self._ask("GET", "/v2/models/stats"), _STATISTICS).get("model_stats") or ():
            if entry.get("name") and _VERSION.fullmatch(entry.get("version") or ""):
                found.setdefault(entry["name"], []).append(int(entry["version"]))
        return {model: sorted(versions) for model, versions in sorted(found.items())}

    def config_hash(self, model: str, version: int) -> str:
        """See `configs.served_hash`."""
        return served_hash(self._value(self._ask("GET", f"{_model(model, version)}/config"), {}))

    def load(self, model: str, config: str, seconds: float) -> None:
        """Load the versions of the config and unload the model's other versions. Return when it is ready."""
        body = {"parameters": {"config": config}}
        self._ask("POST", f"/v2/repository/models/{quote(model)}/load", json=body, seconds=seconds)

    def unload(self, model: str) -> None:
        """Unload all versions; the server finishes accepted requests: docs/facts/triton-server.md#model-control."""
        self._ask("POST", f"/v2/repository/models/{quote(model)}/unload")

    def infer(self, model: str, version: int, request: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON response of exactly this version."""
        answer: dict[str, Any] = self._value(self._ask("POST", f"{_model(model, version)}/infer", json=request), _ANSWER)
        return answer

    def followed(self) -> Followed:
        """Return the part of `live/` on the disk of a pod that has a follower. Raises PodRefuses."""
        answer = self._send("GET", f"{self.pod.follower}{followed.PATH}", reads=True)
        try:
            return Followed.parse(answer.content)
        except ValueError as error:
            raise PodRefuses(f"{self.pod.name}: {followed.PATH} answers with what is no list of models ({error})") from None

    def counters(self) -> dict[metrics.VersionOf, metrics.Counters]:
        """Return the pod's current counters. Raises PodRefuses."""
        return self.measured(metrics.parse)

    def measured(self, parse: Callable[[str], _T]) -> _T:
        """Return the pod's metrics as read by `parse`, which raises ValueError. Raises PodRefuses."""
        answer = self._send("GET", f"{self.pod.metrics}/metrics", reads=True)
        if answer.status_code != httpx.codes.OK:
            raise PodRefuses(f"{self.pod.name}: /metrics answers {answer.status_code}")
        try:
            return parse(answer.text)
        except ValueError as error:
            raise PodRefuses(f"{self.pod.name}: /metrics answers with what are no metrics ({error})") from None

    def _is(self, path: str) -> bool:
        return self._send("GET", self.pod.http + path, reads=True).status_code == httpx.codes.OK

    def _ask(
        self, method: str, path: str, *, json: Any = None, seconds: float = ANSWER_SECONDS, reads: bool = False
    ) -> httpx.Response:
        timeout = httpx.Timeout(10.0, read=seconds)
        key = {_ADMIN_HEADER: self._admin_key()} if path.startswith("/v2/repository/") else {}
        reads = reads or method == "GET"
        answer = self._send(method, self.pod.http + path, reads=reads, json=json, timeout=timeout, headers=key)
        if answer.status_code != httpx.codes.OK:
            overloaded = answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            raise (PodOverloaded if overloaded else PodRefuses)(f"{self.pod.name}: {_words(answer)}")
        return answer

    def _admin_key(self) -> str:
        try:
            return self.pod.admin_key()
        except KeyUnreadable as error:
            raise PodDown(str(error)) from None

    def _send(self, method: str, url: str, *, reads: bool, **arguments: Any) -> httpx.Response:
        """Send a request. If its forward is lost, send it again, unless the pod may have handled it."""

        def is_sent_again(error: BaseException) -> bool:
            return isinstance(error, ForwardLost) and (reads or not error.in_flight)

        attempts = Retrying(
            retry=retry_if_exception(is_sent_again),
            stop=stop_after_delay(REOPEN_SECONDS),
            wait=wait_exponential(0.1, max=2),
            reraise=True,
            before_sleep=lambda state: self._tell_lost(method, url, state),
        )
        with self._named():
            return attempts(self._http.request, method, url, **arguments)

    def _tell_lost(self, method: str, url: str, state: RetryCallState) -> None:
        if self.pod.forwards is not None and state.outcome is not None:
            self.pod.forwards.tell(f"{state.outcome.exception()}; {method} {httpx.URL(url).path} is sent again")

    def _value(self, answer: httpx.Response, form: Any) -> Any:
        """Return the JSON value of a response. Raises PodRefuses for a value of another form."""
        try:
            return reading.checked(reading.answer(answer.content, self.pod.name), form, f"{self.pod.name}: the answer")
        except Unreadable as error:
            raise PodRefuses(f"{error}; is it a Triton server?") from None

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ForwardLost as error:
            if self.pod.forwards is not None:
                self.pod.forwards.tell(f"{error}; whether the pod has done what it was asked for is not known")
            raise ForwardBroke(str(error)) from None
        except ForwardDenied as error:
            raise FleetError(str(error)) from None
        except AnswerTooLarge as error:
            raise PodRefuses(str(error)) from None
        except PortClosed as error:
            raise PodDown(str(error)) from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise PodDown(f"{self.pod.name}: nothing answers at {self.pod.http}") from None
        except httpx.TimeoutException:
            raise PodHangs(f"{self.pod.name}: no answer in time") from None
        except httpx.TransportError as error:
            raise PodDown(f"{self.pod.name}: the connection broke ({error or type(error).__name__})") from None


def _model(model: str, version: int | None) -> str:
    path = f"/v2/models/{quote(model)}"
    return path if version is None else f"{path}/versions/{version}"


def _words(answer: httpx.Response) -> str:
    """Return the server's error in one line, without the stack trace, which is in the pod's log."""
    try:
        text = str(reading.json_object(answer.content)["error"])
    except (Unreadable, KeyError):
        text = answer.text
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line.rstrip(";") or f"HTTP {answer.status_code}"
