"""botocore's exceptions as sentences for people: what cannot be used or reached, and what would be right."""

from __future__ import annotations

import traceback
from pathlib import Path

import botocore
from botocore import exceptions as aws

CREDENTIALS = "set AWS_PROFILE (after `aws sso login`), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_CONFIGURATION = (aws.ProfileNotFound, aws.ConfigParseError, aws.ConfigNotFound, aws.InvalidConfigError)
_NO_CREDENTIALS = (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError)
_LOGIN = (aws.SSOError, aws.TokenRetrievalError)
_UNREACHED = (aws.EndpointConnectionError, aws.ConnectTimeoutError)
_BOTOCORE = Path(botocore.__file__).parent


def explain(error: BaseException) -> str | None:
    """Return a sentence for an exception of botocore; None for any other, and for what AWS itself answers."""
    said = " ".join(str(error).split())
    if isinstance(error, _CONFIGURATION):
        return f"the AWS configuration cannot be used: {said}; check AWS_PROFILE and ~/.aws/config"
    if isinstance(error, _NO_CREDENTIALS):
        return f"there are no AWS credentials: {CREDENTIALS}"
    if isinstance(error, _LOGIN):
        return f"the AWS login has expired or is missing ({said}): run `aws sso login`"
    if isinstance(error, aws.NoRegionError):
        return "no AWS region: set AWS_REGION"
    if isinstance(error, aws.ProxyConnectionError):
        return f"AWS cannot be asked: {said}; check HTTPS_PROXY"
    if isinstance(error, _UNREACHED):
        return f"AWS cannot be asked: {said}; check the network, HTTPS_PROXY and AWS_ENDPOINT_URL"
    if isinstance(error, aws.SSLError):
        return f"AWS cannot be asked: {said}; check AWS_CA_BUNDLE, and whether a proxy speaks in its place"
    if isinstance(error, aws.HTTPClientError):
        return f"the connection to AWS broke: {said}; run the same command again"
    if isinstance(error, aws.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        return "the AWS credentials have expired: log in again, for example `aws sso login`" if code in _EXPIRED else None
    if isinstance(error, aws.BotoCoreError):
        return f"AWS cannot be asked: {said}"
    if isinstance(error, ValueError) and _is_raised_in_botocore(error):  # `Invalid endpoint`, and numbers that are none
        return f"the AWS configuration cannot be used: {said}; check the variables AWS_… and ~/.aws/config"
    return None


def _is_raised_in_botocore(error: BaseException) -> bool:
    return any(Path(frame.filename).is_relative_to(_BOTOCORE) for frame in traceback.extract_tb(error.__traceback__))
