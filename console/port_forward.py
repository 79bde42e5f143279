"""Forward ports of pods through the API server (`pods/portforward`), with one WebSocket per connection.

A pod is reachable from any place that reaches the API server, also through a tunnel. No NetworkPolicy applies, because the
kubelet connects to the loopback address inside the pod. The protocol is `v4.channel.k8s.io` of
https://github.com/kubernetes/kubelet/blob/v0.34.0/pkg/cri/streaming/portforward/websocket.go. The first byte of a message is
its channel, 0 for data and 1 for the kubelet's error. The first message of each channel is the port.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from http import HTTPStatus
from typing import Any

import httpcore
import httpx
from kubernetes import client
from kubernetes.stream.ws_client import get_websocket_url, websocket_proxycare
from websocket import (
    ABNF,
    WebSocket,
    WebSocketBadStatusException,
    WebSocketException,
    WebSocketTimeoutException,
)

from console import kubernetes_status
from spec.failure import NOT_TRIED, Failure

PROTOCOL = "v4.channel.k8s.io"
OPEN_SECONDS = 10.0
_DATA, _ERROR = b"\x00", b"\x01"
_BLOCK = 65536
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class PortClosed(Exception):
    """The pod does not exist or run, no process listens on its port, or it ended the connection."""


class ForwardLost(Exception):
    """The API server or the kubelet did not forward, or no longer does. This says nothing about the pod.

    `in_flight`: a part of a request may have reached the pod.
    """

    def __init__(self, message: str, *, in_flight: bool) -> None:
        super().__init__(message)
        self.in_flight = in_flight


class ForwardDenied(Failure):
    """The API server does not allow this identity to forward ports."""

    exit_code = NOT_TRIED


class PortForwards:
    """The ports of the pods of a namespace. `tell` gets a line for each request that was lost with its forward."""

    def __init__(self, api: client.ApiClient, namespace: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._api = api
        self._namespace = namespace
        self.tell = tell

    def connect(self, pod: str, port: int, seconds: float | None = OPEN_SECONDS) -> Connection:
        """Open a forward. Raises PortClosed if the pod does not exist, ForwardLost and ForwardDenied.

        If no process listens on the port, the first read reports it.
        """
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/portforward"
        # Expired credentials of an exec plugin are renewed here.
        _, url, headers, *_ = self._api.param_serialize("GET", path, auth_settings=["BearerToken"])
        options: dict[str, Any] = {
            "header": {name: value for name, value in headers.items() if name.lower() == "authorization"},
            "subprotocols": [PROTOCOL],
            "timeout": seconds,
            "redirect_limit": 0,
        }
        try:
            websocket = WebSocket(sslopt=self._tls, skip_utf8_validation=True)
            websocket.connect(
                get_websocket_url(url, [("ports", str(port))]),
                **websocket_proxycare(options, self._api.configuration, url, headers),
            )
        except WebSocketBadStatusException as refusal:
            raise self._refused(pod, port, refusal) from None
        except (WebSocketException, OSError, ValueError) as error:
            raise ForwardLost(
                f"pod {pod}: the API server at {self._api.configuration.host} forwards nothing: {_words(error)}",
                in_flight=False,
            ) from None
        return Connection(websocket, pod, port)

    @cached_property
    def _tls(self) -> dict[str, Any]:
        """The kubeconfig's TLS options, as the Kubernetes client uses them for its own requests."""
        configuration = self._api.configuration
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if not configuration.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif configuration.assert_hostname is False:
            context.check_hostname = False
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        name = configuration.tls_server_name
        return {"context": context, **({"server_hostname": name} if name else {})}

    def transport(self) -> httpx.HTTPTransport:
        """Return a transport for `http://<pod>:<port>`; its requests raise the errors of `connect` and Connection."""
        return _Transport(self)

    @contextmanager
    def listening(
        self, pod: str, port: int, lost: Callable[[ForwardLost | ForwardDenied], None] = lambda _: None
    ) -> Iterator[str]:
        """Yield HOST:PORT on this machine for clients with their own sockets. Each connection is a forward.

        `lost` is called, from another thread, for each forward that is lost or denied.
        """
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._accept, args=(server, pod, port, lost), daemon=True).start()
            try:
                yield f"127.0.0.1:{server.getsockname()[1]}"
            finally:
                server.shutdown(socket.SHUT_RDWR)  # this wakes a thread that waits in accept()

    def _accept(self, server: socket.socket, *carried: Any) -> None:
        with suppress(OSError):  # it is shut down
            while True:
                local, _ = server.accept()
                threading.Thread(target=self._carry_or_tell, args=(local, *carried), daemon=True).start()

    def _carry_or_tell(
        self, local: socket.socket, pod: str, port: int, lost: Callable[[ForwardLost | ForwardDenied], None]
    ) -> None:
        try:
            self._carry(local, pod, port)
        except (ForwardLost, ForwardDenied) as error:
            lost(error)

    def _carry(self, local: socket.socket, pod: str, port: int) -> None:
        """Copy bytes until one side ends. A client sees a lost forward as a closed connection, and connects again."""
        with local, suppress(PortClosed, OSError), self.connect(pod, port) as forward:
            while True:
                if forward.comes_before(local):
                    data = forward.receive_message(None)
                    if data == b"":
                        return
                    local.sendall(data or b"")
                else:
                    data = local.recv(_BLOCK)
                    if not data:
                        return
                    forward.send(data, None)

    def _refused(self, pod: str, port: int, refusal: WebSocketBadStatusException) -> Exception:
        status, why = refusal.status_code, _message(refusal)
        if status in _DENIED:
            return ForwardDenied(
                f"the cluster at {self._api.configuration.host} answers {status}: {why}; this needs get and create "
                f"of pods/portforward in the namespace {self._namespace} (docs/private-api.md#pods)"
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status < HTTPStatus.BAD_REQUEST or status in _LATER:
            return ForwardLost(f"pod {pod}: its port {port} is not forwarded ({status}: {why})", in_flight=False)
        return PortClosed(f"pod {pod} has no port {port} to reach ({status}: {why})")


class Connection:
    """A connection to a port of a pod; a context manager that closes it."""

    def __init__(self, websocket: WebSocket, pod: str, port: int) -> None:
        self._websocket = websocket
        self._name = f"pod {pod}: port {port}"
        self._begun: set[bytes] = set()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes, seconds: float | None) -> None:
        """Send all of the data. Raises TimeoutError, PortClosed and ForwardLost."""
        if not data:
            return
        self._websocket.settimeout(seconds)
        try:
            self._websocket.send_binary(_DATA + data)
        except WebSocketTimeoutException:
            raise TimeoutError from None
        except (WebSocketException, OSError) as error:
            with suppress(TimeoutError, ForwardLost):
                while self.receive(0):  # reads what the kubelet reported before it closed
                    pass
                raise PortClosed(f"{self._name}: the pod ended the connection") from None
            raise self._lost(error) from None

    def receive(self, seconds: float | None) -> bytes:
        """Return the next bytes; empty when the pod has ended the connection. Raises the errors of `receive_message`."""
        while (data := self.receive_message(seconds)) is None:
            pass
        return data

    def receive_message(self, seconds: float | None) -> bytes | None:
        """Return the bytes of the next message. None for a message without data, empty when the pod has ended the
        connection.

        Raises PortClosed when the kubelet reports that the pod refuses it, TimeoutError, and ForwardLost.
        """
        self._websocket.settimeout(seconds)
        try:
            opcode, frame = self._websocket.recv_data_frame(control_frame=True)
        except WebSocketTimeoutException:
            raise TimeoutError from None
        except (WebSocketException, OSError) as error:
            raise self._lost(error) from None
        if opcode == ABNF.OPCODE_CLOSE:
            return b""
        if opcode not in {ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT} or not frame.data:
            return None
        channel, data = frame.data[:1], bytes(frame.data[1:])
        if channel not in self._begun:
            self._begun.add(channel)  # the message with the port
            return None
        if channel == _ERROR:
            raise PortClosed(f"{self._name} is closed: {data.decode(errors='replace').strip()}")
        return data or None

    @property
    def readable(self) -> bool:
        """Return whether data has arrived, or the end of the connection."""
        sock = self._websocket.sock
        return sock is None or _pending(sock) or sock in _readable([sock], 0)

    def comes_before(self, other: socket.socket) -> bool:
        """Wait until this connection or the other has data; return whether this one has."""
        sock = self._websocket.sock
        return sock is None or _pending(sock) or sock in _readable([sock, other], None)

    def close(self) -> None:
        """Close it at once."""
        with suppress(WebSocketException, OSError):
            self._websocket.settimeout(1)
            self._websocket.send_close()
        self._websocket.shutdown()

    def _lost(self, error: Exception) -> ForwardLost:
        return ForwardLost(f"{self._name}: the API server's port forward was lost: {_words(error)}", in_flight=True)


class _Stream(httpcore.NetworkStream):
    """A connection in the form that httpcore reads and writes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unread = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._unread:
            try:
                self._unread = self._connection.receive(timeout)
            except TimeoutError:
                raise httpcore.ReadTimeout from None
        data, self._unread = self._unread[:max_bytes], self._unread[max_bytes:]
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._connection.send(buffer, timeout)
        except TimeoutError:
            raise httpcore.WriteTimeout from None

    def close(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        """Return for httpcore whether an idle connection has ended, so it sends no request on it."""
        return self._connection.readable if info == "is_readable" else None


class _Backend(httpcore.NetworkBackend):
    def __init__(self, forwards: PortForwards) -> None:
        self._forwards = forwards

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - of the interface, as the next
        socket_options: Any = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        return _Stream(self._forwards.connect(host, port, timeout))


class _Transport(httpx.HTTPTransport):
    def __init__(self, forwards: PortForwards) -> None:
        super().__init__(trust_env=False, verify=False)  # the pool is replaced below: pods use plain HTTP
        self._pool = httpcore.ConnectionPool(network_backend=_Backend(forwards))


def _pending(sock: socket.socket) -> bool:
    """Return whether TLS has read more from a socket than was taken."""
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


def _readable(sockets: list[socket.socket], seconds: float | None) -> list[socket.socket]:
    poll = select.poll()  # select() takes no descriptor above 1023
    for one in sockets:
        poll.register(one, select.POLLIN)
    events = {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)}
    return [one for one in sockets if one.fileno() in events]


def _message(refusal: WebSocketBadStatusException) -> str:
    """Return the message of the API server's Status object, or the kubelet's text."""
    body = refusal.resp_body or b""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    return " ".join(kubernetes_status.message(text, text).split())[:300].rstrip(":") or "no reason"


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).strip() or type(error).__name__
