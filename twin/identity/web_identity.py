"""STS for programs that assume roles themselves with a token of the cluster, like KEDA's operator.

moto gives credentials to every caller, so this server is in front of it. The API server validates the token and its owner
(TokenReview), and the role's trust policy is checked as for a pod (irsa.py). Only then is the request sent to moto. Other
operations are refused, because no program of the twin uses them.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from xml.sax.saxutils import escape

import httpx
from aiohttp import web

from twin.cluster.kube_api import KubeApi
from twin.cluster.kube_errors import KubeError
from twin.identity import irsa
from twin.identity.exchange import IdentityExchange
from twin.identity.irsa import IdentityRefused

log = logging.getLogger("twin.sts")
_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
_ACTION = "AssumeRoleWithWebIdentity"


class WebIdentityService:
    """Answers `AssumeRoleWithWebIdentity`, and refuses everything else with AccessDenied."""

    def __init__(self, api: KubeApi, identity: IdentityExchange, sts_url: str) -> None:
        self._api = api
        self._identity = identity
        self._sts = httpx.AsyncClient(base_url=sts_url, trust_env=False, timeout=15.0)

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1."""
        runner = web.ServerRunner(web.Server(self._serve))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        content = await request.text()
        asked = {name: values[0] for name, values in urllib.parse.parse_qs(content).items()}
        action, role = asked.get("Action", ""), asked.get("RoleArn", "")
        if action != _ACTION:
            return _error("AccessDenied", f"the twin's STS does {_ACTION} and not {action or 'this'}")
        try:
            token = asked.get("WebIdentityToken", "")
            await self._review(token)
            await asyncio.to_thread(self._identity.check, role, token)
            answer = await self._sts.post("/", content=content, headers={"Content-Type": request.content_type})
        except IdentityRefused as error:
            return _error("AccessDenied", f"Not authorized to perform sts:{_ACTION}: {error}")
        except (KubeError, httpx.HTTPError) as error:
            return _error("InternalFailure", f"{type(error).__name__}: {error}", status=500)
        return web.Response(status=answer.status_code, content_type="text/xml", body=answer.content)

    async def _review(self, token: str) -> None:
        """Raise IdentityRefused for a token that the API server did not sign, that has expired, or has another audience."""
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [irsa.DEFAULT_AUDIENCE]},
        }
        status = (await self._api.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
        if not status.get("authenticated"):
            raise IdentityRefused(f"the cluster does not know the token: {status.get('error', 'it says no more')}")


def _error(code: str, message: str, status: int = 403) -> web.Response:
    log.warning("%s: %s", code, message)
    kind = "Sender" if status < 500 else "Receiver"
    body = (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>{kind}</Type><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message></Error><RequestId>twin</RequestId></ErrorResponse>"
    )
    return web.Response(status=status, content_type="text/xml", text=body)
