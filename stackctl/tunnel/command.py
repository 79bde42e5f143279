"""Run `stackctl tunnel`: connect to a private API server for one command or until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from spec import kubeconfig
from spec.settings import Settings
from stackctl.account.api_server import ApiServer
from stackctl.account.guard import caller, require_account
from stackctl.account.read_only import Readers
from stackctl.stack_settings import settings_of
from stackctl.tunnel.cluster import api_server_of, system_nodes
from stackctl.tunnel.operations import OPERATIONS
from stackctl.tunnel.proxy import Proxy, Surroundings, variables
from stackctl.tunnel.ssm import Destination, Session, TunnelUnusable, require_programs

_MOST_NODES = 3


def tunnel(stack: str, command: Sequence[str]) -> int:
    """Open the tunnel and run a command through it; return its exit code.

    Without a command, keep the tunnel open until Ctrl-C. Raises Failure.
    """
    settings = settings_of(stack)
    require_programs()
    surroundings = Surroundings.of(os.environ)
    readers = Readers(settings.region, OPERATIONS)
    require_account(caller(readers), settings)
    server = api_server_of(settings, readers)
    with _tunnel(settings, readers, server, surroundings) as through:
        return _run(command, through) if command else _stay(server, through)


@contextlib.contextmanager
def _tunnel(
    settings: Settings, readers: Readers, server: ApiServer, surroundings: Surroundings
) -> Iterator[Mapping[str, str]]:
    """Open a tunnel, yield the environment variables for its programs, and close it."""
    way = Way(lambda: _session(settings, readers, server.host))
    with contextlib.ExitStack() as stack:
        stack.callback(way.close)
        way.open()
        proxy = Proxy(server.host, way.connect, surroundings, _say)
        stack.callback(proxy.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stackctl-tunnel-"))
        # A separate file, so the user's ~/.kube/config does not change. JSON is YAML.
        file = Path(folder, "kubeconfig")
        through = f"http://127.0.0.1:{proxy.port}"
        content = kubeconfig.of_eks(server.cluster, settings.region, server.endpoint, server.authority, through)
        file.write_text(json.dumps(content, indent=1), encoding="utf-8")
        yield {"KUBECONFIG": str(file), **variables(os.environ, server.host, proxy.port)}


class Way:
    """A session that restarts after its end. SSM ends an unused session, and the node may terminate."""

    def __init__(self, begin: Callable[[], Session]) -> None:
        self._begin = begin
        self._session: Session | None = None
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> Session:
        """Return the open session, or start one. Raises TunnelUnusable and AwsUnusable."""
        with self._lock:
            if self._closed:  # a late connection would leave a session open
                raise TunnelUnusable("the tunnel is closed")
            if self._session is None or self._session.ended:
                self._session = self._begin()
            return self._session

    def connect(self) -> socket.socket:
        """Return a connection to the API server. Raises Failure and OSError."""
        return socket.create_connection(("localhost", self.open().port), timeout=30)

    def close(self) -> None:
        """End the session, and start no other."""
        with self._lock:
            self._closed = True
            if self._session is not None:
                self._session.end()


def _session(settings: Settings, readers: Readers, host: str) -> Session:
    """Return a session through the first node that accepts one.

    Raises TunnelUnusable with the error of each node.
    """
    refused = []
    for node in system_nodes(settings, readers)[:_MOST_NODES]:
        try:
            return Session(Destination(settings.region, node, host))
        except TunnelUnusable as error:
            refused.append(str(error))
    raise TunnelUnusable("; ".join(refused))


def _stay(server: ApiServer, through: Mapping[str, str]) -> int:
    with contextlib.suppress(KeyboardInterrupt):
        _say(f"The API server of {server.cluster} is reached by this until Ctrl-C; in another terminal:")
        print("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in through.items()), flush=True)
        threading.Event().wait()
    _say("closed")
    return 0


def _run(command: Sequence[str], through: Mapping[str, str]) -> int:
    """Run a program to its end; return its exit code, as a shell does. Raises OSError if it does not start."""
    # Ctrl-C goes to the program, which may have work to finish, so the tunnel stays open for it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(command, env={**os.environ, **through})
        try:
            code = process.wait()
        except BaseException:  # SIGTERM
            process.terminate()
            process.wait()
            raise
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
