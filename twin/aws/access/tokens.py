"""Check the form of an `aws eks get-token` token and compute its expected signature.

The token is a presigned `sts:GetCallerIdentity` request. Its signature covers the header with the cluster's name, so a token
for one cluster is worthless for another. The checks run in the order of
https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/v0.6.13/pkg/token/token.go. One differs: there the scheme is
https and the host is an STS host of the cluster's partition. Here both come from the twin's STS.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
_LONGEST = 4096
_LIFETIME = datetime.timedelta(minutes=15)
_LATEST = datetime.timedelta(minutes=5)
"""STS refuses a request that is signed more than this far in the future."""
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_PARAMETERS = frozenset(
    {
        "action",
        "version",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    }
)


class TokenRefused(Exception):
    """The token proves no identity. The text is for the log; the API server returns `Unauthorized`."""


@dataclass(frozen=True)
class PresignedRequest:
    """A well-formed request with an unchecked signature. The names of `query` are lower case."""

    url: str
    query: Mapping[str, str]

    @property
    def scope(self) -> list[str]:
        """Return access key, date, region, `sts` and `aws4_request` from the request. Raises TokenRefused."""
        scope = self.query.get("x-amz-credential", "").split("/")
        if len(scope) != 5 or scope[3:] != ["sts", "aws4_request"]:
            raise TokenRefused("X-Amz-Credential is not KEY/DATE/REGION/sts/aws4_request")
        return scope

    @property
    def access_key_id(self) -> str:
        """Return the access key that the request claims as its signer."""
        return self.scope[0]

    @property
    def signature(self) -> str:
        return self.query.get("x-amz-signature", "")

    def expected_signature(self, secret_key: str, cluster: str) -> str:
        """Compute the signature of this request for `cluster` with `secret_key`."""
        key, _, region, service, _ = self.scope
        url = urllib.parse.urlsplit(self.url)
        unsigned = "&".join(pair for pair in url.query.split("&") if not pair.lower().startswith("x-amz-signature="))
        known = {"host": url.netloc, CLUSTER_HEADER: cluster}
        headers = {name: known[name] for name in self.query["x-amz-signedheaders"].lower().split(";")}
        request = AWSRequest("GET", url._replace(query=unsigned).geturl(), headers)
        request.context["timestamp"] = self.query["x-amz-date"]
        signer = SigV4QueryAuth(Credentials(key, secret_key), service, region)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        signature: str = signer.signature(text, request)
        return signature


def parse(token: str, sts_url: str, now: datetime.datetime) -> PresignedRequest:
    """Parse the presigned request in the token. Raises TokenRefused with the first problem."""
    if len(token) > _LONGEST:
        raise TokenRefused("token is too large")
    if not token.startswith(PREFIX):
        raise TokenRefused(f"token is missing the prefix {PREFIX!r}")
    url = _decoded(token.removeprefix(PREFIX))
    parts, sts = urllib.parse.urlsplit(url), urllib.parse.urlsplit(sts_url)
    if parts.scheme != sts.scheme:
        raise TokenRefused(f"unexpected scheme {parts.scheme!r} in pre-signed URL")
    if parts.netloc != sts.netloc:
        raise TokenRefused(f"unexpected hostname {parts.netloc!r} in pre-signed URL")
    if parts.path != "/":
        raise TokenRefused("unexpected path in pre-signed URL")
    query = _query(parts.query)
    if query.get("action") != "GetCallerIdentity":
        raise TokenRefused("unexpected action parameter in pre-signed URL")
    signed = query.get("x-amz-signedheaders", "").lower().split(";")
    if CLUSTER_HEADER not in signed:
        raise TokenRefused(f"client did not sign the {CLUSTER_HEADER} header in the pre-signed URL")
    if not {"host", CLUSTER_HEADER}.issuperset(signed):
        raise TokenRefused("client signed a header that STS does not receive")
    expires = query.get("x-amz-expires", "")
    if not (expires.isdecimal() and int(expires) <= _LIFETIME.total_seconds()):
        raise TokenRefused(f"invalid X-Amz-Expires parameter in pre-signed URL: {expires!r}")
    _check_date(query.get("x-amz-date", ""), now)
    return PresignedRequest(url, query)


def _decoded(text: str) -> str:
    if not _BASE64URL.fullmatch(text):
        raise TokenRefused("illegal base64 data")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenRefused(str(error)) from None


def _query(text: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in urllib.parse.parse_qsl(text, keep_blank_values=True):
        if name.lower() in query:
            raise TokenRefused(f"duplicate query parameter found: {name!r}")
        if name.lower() not in _PARAMETERS:
            raise TokenRefused(f"non-whitelisted query parameter {name!r}")
        query[name.lower()] = value
    return query


def _check_date(text: str, now: datetime.datetime) -> None:
    try:
        signed = datetime.datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    except ValueError:
        raise TokenRefused(f"X-Amz-Date is {text!r}, not like 20060102T150405Z") from None
    if now > signed + _LIFETIME:
        raise TokenRefused(f"X-Amz-Date parameter is expired (15 minute expiration) {text}")
    if signed > now + _LATEST:
        raise TokenRefused(f"Signature not yet current: {text}")
