"""EKS Pod Identity: the webhook that changes pods at admission, and the agent on each node that gives credentials.

Both use the associations that are already effective in the cluster: a new one becomes effective after its delay
(twin/aws/faults.py). The webhook does not change a pod that is admitted earlier, and never changes it later. The agent
checks at each request. So a container that knows its address gets credentials as soon as the association is effective.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from twin.aws.base.clients import Clients
from twin.aws.base.handler import APPLY_ERRORS, explain
from twin.aws.eks import access
from twin.aws.iam import trust
from twin.cluster.kube_api import KubeApi
from twin.cluster.kube_errors import KubeError
from twin.identity.irsa import Caller, IdentityRefused, check_policy

log = logging.getLogger("twin.pod-identity")
AUDIENCE = "pods.eks.amazonaws.com"
URI, TOKEN_FILE = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
TOKEN_PATH = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token"
AGENT_URL = "http://169.254.170.23/v1/credentials"
_ACCOUNT = "system:serviceaccount:"
_LIFETIME = timedelta(hours=6)


def injected(clients: Clients, cluster: str, namespace: str, account: str) -> dict[str, str]:
    """Return the variables that the webhook adds to a container of a pod that is admitted now."""
    if access.effective_role(clients, cluster, namespace, account) is None:
        return {}
    return {URI: AGENT_URL, TOKEN_FILE: TOKEN_PATH, "AWS_REGION": clients.region}


def on_this_machine(variables: Mapping[str, str], agent_url: str, token: Path) -> dict[str, str]:
    """Return a container's variables with this machine's agent address and token path instead of the node's."""
    here = {URI: agent_url, TOKEN_FILE: str(token)} if variables.get(URI) == AGENT_URL else {}
    return {**variables, **here}


def token_audience(pod: Mapping[str, Any], path: str) -> str | None:
    """Return the audience of the token at a path in a pod's first container, by the pod's own specification, if any."""
    (container, *_) = pod["containers"]
    for mount in container.get("volumeMounts") or ():
        directory, _, name = path.rpartition("/")
        volume: Mapping[str, Any] = next((one for one in pod.get("volumes") or () if one["name"] == mount["name"]), {})
        for source in volume.get("projected", {}).get("sources", ()) if mount["mountPath"] == directory else ():
            token = source.get("serviceAccountToken") or {}
            if token.get("path") == name:
                return str(token.get("audience", ""))
    return None


class PodIdentityAgent:
    """Answers `GET /v1/credentials` with credentials for the role of the caller's service account."""

    def __init__(self, api: KubeApi, clients: Clients) -> None:
        self._api = api
        self._clients = clients

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1."""
        runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            namespace, account = await self._caller(request.headers.get("Authorization", ""))
            credentials = await asyncio.to_thread(self._credentials, namespace, account)
        except Refused as refused:
            log.warning("%s", refused)
            return web.Response(status=refused.status, text=str(refused))
        except KubeError as error:
            return web.Response(status=500, text=str(error))
        return web.json_response(credentials)

    async def _caller(self, token: str) -> tuple[str, str]:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        status = (await self._api.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
        name = str(status.get("user", {}).get("username", ""))
        if not status.get("authenticated") or not name.startswith(_ACCOUNT):
            raise Refused(400, f"the token is none of a service account for {AUDIENCE}: {status.get('error', name)}")
        namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
        return namespace, account

    def _credentials(self, namespace: str, account: str) -> dict[str, str]:
        clusters = self._clients("eks").list_clusters()["clusters"]
        roles = {one: access.effective_role(self._clients, one, namespace, account) for one in clusters}
        cluster, role = next(((one, role) for one, role in roles.items() if role is not None), (None, None))
        if cluster is None or role is None:
            raise Refused(404, f"ResourceNotFoundException: no association of {namespace}/{account} is known")
        try:
            trust.require_effective(self._clients, role)
            self._check_trust(role, cluster, namespace, account)
            answer = self._clients("sts").assume_role(RoleArn=role, RoleSessionName="eks-pod-identity")["Credentials"]
        except (*APPLY_ERRORS, IdentityRefused) as error:
            raise Refused(403, f"AccessDeniedException: {explain(error)}") from error
        return {
            "AccessKeyId": answer["AccessKeyId"],
            "SecretAccessKey": answer["SecretAccessKey"],
            "Token": answer["SessionToken"],
            "AccountId": self._clients.account_id,
            "Expiration": (datetime.now(UTC) + _LIFETIME).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    def _check_trust(self, role: str, cluster: str, namespace: str, account: str) -> None:
        """Check the role's trust policy like STS, because moto lets everyone assume every role. Raises IdentityRefused."""
        found = trust.role_of(self._clients, role)
        tags = {
            "eks-cluster-arn": self._clients.arn("eks", f"cluster/{cluster}"),
            "eks-cluster-name": cluster,
            "kubernetes-namespace": namespace,
            "kubernetes-service-account": account,
        }
        values = {f"aws:RequestTag/{name}": (value,) for name, value in tags.items()}
        actions = ("sts:AssumeRole", "sts:TagSession")
        caller = Caller(f"{namespace}/{account}", "Service", AUDIENCE, actions, values, "the session")
        check_policy(found["AssumeRolePolicyDocument"] if found is not None else {}, caller, role)


class Refused(Exception):
    """The agent gives no credentials; the text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
