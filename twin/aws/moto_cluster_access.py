"""Connect moto's EKS and STS to the twin's API server.

A cluster has this server's address and certificate authority, so the kubeconfig of `aws eks update-kubeconfig` works.
AssumeRole refuses a role that does not exist. GetCallerIdentity returns an IAM user for the twin's own credentials, because
moto's default ARN has a form that no AWS identity has. Moto also serves the API server's webhooks (access/webhooks.py).
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import AccessDeniedError
from moto.core.responses import ActionResult
from moto.eks.models import Cluster, EKSBackend
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.sts.models import STSBackend
from moto.sts.responses import TokenResponse

from twin.aws.access import webhooks
from twin.host.home import TwinHome

_dispatch = DomainDispatcherApplication.__call__
_create_cluster = EKSBackend.create_cluster
_assume_role = TokenResponse.assume_role
_get_caller_identity = STSBackend.get_caller_identity


def install() -> None:
    """Patch the moto of this process."""
    account = os.environ.get("MOTO_ACCOUNT_ID", DEFAULT_ACCOUNT_ID)
    EKSBackend.create_cluster = create_cluster  # type: ignore[method-assign,assignment]
    TokenResponse.assume_role = assume_role  # type: ignore[method-assign,assignment]
    STSBackend.get_caller_identity = get_caller_identity  # type: ignore[method-assign,assignment]
    DomainDispatcherApplication.__call__ = lambda moto, environ, start_response: webhooks.before(  # type: ignore[method-assign,assignment]
        lambda *request: _dispatch(moto, *request), account
    )(environ, start_response)


def create_cluster(backend: EKSBackend, *arguments: Any, **named: Any) -> Cluster:
    """Create a cluster with the twin's API server, after the twin has chosen that server's address."""
    cluster = _create_cluster(backend, *arguments, **named)
    home = TwinHome(Path(os.environ["TWIN_HOME"]))
    server = home.load_endpoints().api_server_url
    if server is not None:
        cluster.endpoint = server
        cluster.certificate_authority = {"data": base64.b64encode((home.pki / "ca.crt").read_bytes()).decode()}
    return cluster


def assume_role(response: TokenResponse) -> ActionResult:
    """Return credentials of an existing role. AWS answers AccessDenied for others."""
    role = response._get_param("RoleArn")
    try:
        iam_backends[response.current_account][response.partition].get_role_by_arn(role)
    except NotFoundException:
        _, caller, _ = response.backend.get_caller_identity(response.get_access_key(), response.region)
        raise AccessDeniedError(user_arn=caller, action=f"sts:AssumeRole on resource: {role}") from None
    return _assume_role(response)


def get_caller_identity(backend: STSBackend, access_key_id: str, region: str) -> tuple[str, str, str]:
    """Return id, ARN and account of the access key's owner."""
    id, arn, account = _get_caller_identity(backend, access_key_id, region)
    return id, arn.replace(f":sts::{account}:user/", f":iam::{account}:user/"), account
