"""Authenticate and authorize IAM principals for the API server, inside of moto.

`AUTHENTICATION` takes a TokenReview and replaces aws-iam-authenticator. `AUTHORIZATION` takes a SubjectAccessReview and
replaces EKS's authorizer. Access entries and their policies are the twin's records (twin/aws/eks/access.py).

The twin has one control plane for all clusters of its account. The token's cluster name selects the cluster; if several have
this name, the region of the signature decides. The user carries both, with the principal, in `ENTRY`.
"""

from __future__ import annotations

import datetime
import hmac
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moto.eks.models import eks_backends
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends
from moto.utilities.utils import get_partition

from twin.aws.access import tokens
from twin.aws.access.paths import AUTHENTICATION, AUTHORIZATION, ENTRY
from twin.aws.access.tokens import PresignedRequest, TokenRefused
from twin.aws.base import moto_records
from twin.aws.eks import access_policies, lookup

ACCESS_KEY, SECRET_KEY = "test", "test"
"""The credentials of the twin's own commands and shell (twin/engine/engine.py), which moto accepts without a user."""

log = logging.getLogger("twin.access")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Caller:
    """The signer of a request. `principal` is a user, or a role with its path; `arn` is GetCallerIdentity's answer."""

    secret_key: str
    arn: str
    principal: str
    id: str
    session: str = ""


@dataclass(frozen=True)
class Account:
    """One moto account, as its control planes see it. Tokens must be presigned for `sts_url`."""

    id: str
    sts_url: str

    def authenticate(self, token: str, now: datetime.datetime) -> dict[str, Any]:
        """Return the `user` of a TokenReview. Raises TokenRefused."""
        request = tokens.parse(token, self.sts_url, now)
        caller = self._caller(request, now)
        region, cluster = self._cluster(request, caller)
        entry = moto_records.get(self.id, region, lookup.record_name(cluster, "access-entries", caller.principal))
        if entry is None:
            raise TokenRefused(f"{caller.principal} has no access entry of {cluster}")
        if entry["type"] != "STANDARD":
            raise TokenRefused(f"the access entry of {caller.principal} is of type {entry['type']}, for nodes")
        return {
            "username": _username(entry, caller, self.id),
            "uid": f"aws-iam-authenticator:{self.id}:{caller.id}",
            "groups": list(entry.get("kubernetesGroups") or ()),
            "extra": {
                "accessKeyId": [request.access_key_id],
                "arn": [caller.arn],
                "canonicalArn": [_without_path(caller.principal)],
                "principalId": [caller.id],
                "sessionName": [caller.session],
                "sigs.k8s.io/aws-iam-authenticator/principalId": [caller.id],
                ENTRY: [region, cluster, caller.principal],
            },
        }

    def authorize(self, review: Mapping[str, Any]) -> str | None:
        """Return the access policy that allows the request (spec of a SubjectAccessReview), or None."""
        region, cluster, principal = review["extra"][ENTRY]
        if (region, cluster) not in self._clusters():
            return None
        folder = lookup.record_name(cluster, "access-policies", principal)
        return access_policies.allowing(moto_records.below(self.id, region, folder).values(), review)

    def _caller(self, request: PresignedRequest, now: datetime.datetime) -> Caller:
        key, _, signing_region, *_ = request.scope
        partition = get_partition(signing_region)
        iam = iam_backends[self.id][partition]
        session = sts_backends[self.id][partition].get_assumed_role_from_access_key(key)
        if session is not None:
            if request.query.get("x-amz-security-token") != session.session_token:
                raise TokenRefused("InvalidClientTokenId: the session token belongs to another access key")
            if now.replace(tzinfo=None) > session.expiration:
                raise TokenRefused("ExpiredToken: the session has ended")
            try:
                role = iam.get_role_by_arn(session.role_arn)
            except NotFoundException:
                raise TokenRefused(f"{session.role_arn} does not exist") from None
            return Caller(session.secret_access_key, session.arn, role.arn, role.id, session.session_name)
        user = iam.get_user_from_access_key_id(key)
        if user is not None:
            access_key = user.get_access_key_by_id(key)
            if access_key.status != "Active":
                raise TokenRefused(f"InvalidClientTokenId: the access key {key!r} is {access_key.status}")
            return Caller(access_key.secret_access_key, user.arn, user.arn, user.id)
        if key == ACCESS_KEY:
            id, arn, _ = sts_backends[self.id][partition].get_caller_identity(key, signing_region)
            return Caller(SECRET_KEY, arn, arn, id)
        raise TokenRefused(f"InvalidClientTokenId: there is no access key {key!r}")

    def _cluster(self, request: PresignedRequest, caller: Caller) -> tuple[str, str]:
        """Return region and name of the cluster that the request is signed for. Raises TokenRefused.

        On AWS each cluster has its own API server, and the signature's region is the STS region. There, two clusters of one
        name accept each other's tokens.
        """
        _, _, signing_region, *_ = request.scope
        for region, name in sorted(self._clusters(), key=lambda cluster: cluster[0] != signing_region):
            if hmac.compare_digest(request.expected_signature(caller.secret_key, name), request.signature):
                return region, name
        raise TokenRefused("SignatureDoesNotMatch: of another secret key, or for another cluster")

    def _clusters(self) -> Iterator[tuple[str, str]]:
        for region, backend in list(eks_backends[self.id].items()):
            for name in list(backend.clusters):
                yield region, name


def before(application: Application, account: str) -> Application:
    """Wrap `application`, moto's server, with the two webhooks."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path not in (AUTHENTICATION, AUTHORIZATION):
            return application(environ, start_response)
        review = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        of = Account(account, f"http://{environ['HTTP_HOST']}")
        status = _token_status(of, review["spec"]) if path == AUTHENTICATION else _access_status(of, review["spec"])
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "status": status}).encode()]

    return serve


def _token_status(account: Account, spec: Mapping[str, Any]) -> dict[str, Any]:
    try:
        user = account.authenticate(spec["token"], datetime.datetime.now(datetime.UTC))
    except TokenRefused as refusal:
        log.warning("access denied: %s", refusal)
        return {"authenticated": False, "error": str(refusal)}
    return {"authenticated": True, "user": user}


def _access_status(account: Account, spec: Mapping[str, Any]) -> dict[str, Any]:
    policy = account.authorize(spec)
    # Not `denied`: RBAC may still allow the request.
    return {"allowed": False} if policy is None else {"allowed": True, "reason": f"EKS access policy {policy}"}


def _username(entry: Mapping[str, Any], caller: Caller, account: str) -> str:
    """Return the entry's user name, or EKS's default.

    https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
    """
    name = entry.get("userName")
    if not name:
        name = caller.arn.rpartition("/")[0] + "/{{SessionName}}" if caller.session else caller.arn
    values = {"AccountID": account, "SessionName": caller.session.replace("@", "-"), "SessionNameRaw": caller.session}
    for key, value in values.items():
        name = name.replace(f"{{{{{key}}}}}", value)
    return str(name)


def _without_path(principal: str) -> str:
    head, separator, path = principal.partition(":role/")
    return f"{head}{separator}{path.rpartition('/')[2]}" if separator else principal
