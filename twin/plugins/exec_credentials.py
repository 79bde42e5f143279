"""Get tokens from the program in a kubeconfig, like client-go.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Generator, Mapping
from typing import Any

import httpx

from twin.plugins.errors import PluginError

_SECONDS = 60
"""The program's timeout in seconds; `aws eks get-token` sends no request."""


class ExecCredentials(httpx.Auth):
    """Authenticates requests with the program's token.

    The program runs for the first request, and again after the token has expired or was refused. A request raises
    PluginError if the program fails.
    """

    def __init__(self, command: Mapping[str, Any]) -> None:
        """Take `command`, the `exec` of a kubeconfig's user."""
        self._argv = [command["command"], *(command.get("args") or ())]
        self._env = {entry["name"]: entry["value"] for entry in command.get("env") or ()}
        self._lock = threading.Lock()
        self._token: str | None = None
        self._expires: datetime.datetime | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with a token; discard the token if the API server refuses it."""
        token = self._current()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            with self._lock:
                if self._token == token:
                    self._token = None

    def _current(self) -> str:
        with self._lock:
            if self._token is None or (self._expires is not None and datetime.datetime.now(datetime.UTC) >= self._expires):
                status = self._run()
                self._token = str(status["token"])
                expires = status.get("expirationTimestamp")
                self._expires = datetime.datetime.fromisoformat(expires) if expires else None
            return self._token

    def _run(self) -> dict[str, Any]:
        command = shlex.join(self._argv)
        try:
            done = subprocess.run(
                self._argv, env={**os.environ, **self._env}, text=True, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PluginError(f"the kubeconfig's `{command}` for credentials failed: {error}") from error
        if done.returncode != 0:
            raise PluginError(f"the kubeconfig's `{command}` exited with {done.returncode}: {done.stderr.strip()}")
        try:
            status: dict[str, Any] = json.loads(done.stdout)["status"]
            status["token"]
        except (ValueError, KeyError, TypeError):
            raise PluginError(f"the kubeconfig's `{command}` printed no ExecCredential with a token") from None
        return status
