"""Explain botocore's exceptions in sentences: the problem, and the remedy."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import botocore
from botocore import exceptions as aws

LOG_IN = "`aws login` or `aws sso login`"
CREDENTIALS = f"set AWS_PROFILE (after {LOG_IN}), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
CONFIGURATION = (aws.ProfileNotFound, aws.ConfigParseError, aws.ConfigNotFound, aws.InvalidConfigError)
_NO_CREDENTIALS = (aws.NoCredentialsError, aws.PartialCredentialsError)
_SSO = (aws.SSOError, aws.TokenRetrievalError)
SOURCES = (*_SSO, aws.LoginError, aws.CredentialRetrievalError)
"""The profile names a source of credentials, and that source has none."""
_REFUSED_SOURCES = {
    "AssumeRole": "check role_arn and source_profile of the profile, and the trust policy of the role",
    "AssumeRoleWithWebIdentity": (
        "check AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE (or the profile's role_arn and web_identity_token_file), and "
        "the trust policy of the role"
    ),
    "GetRoleCredentials": "check sso_account_id and sso_role_name of the profile",
}
"""The calls of botocore that get credentials, and what to check when AWS refuses one."""
_UNREACHED = (aws.EndpointConnectionError, aws.ConnectTimeoutError)
_BOTOCORE = Path(botocore.__file__).parent
# Secrets in botocore's messages: credentials in an address (a proxy, an endpoint), and in a header that http.client refuses.
_IN_AN_ADDRESS = re.compile(r"(?<=://)[^\s/\"']*( [^\s/\"']*)?@")
_HEADER = "Invalid header value"


def explain(error: BaseException) -> str | None:
    """Return a sentence for a botocore exception. None for other exceptions and for errors returned by AWS itself."""
    said = _without_secrets(str(error))
    if isinstance(error, CONFIGURATION):
        return f"the AWS configuration cannot be used: {said}; check AWS_PROFILE and ~/.aws/config"
    if isinstance(error, _NO_CREDENTIALS):
        return f"there are no AWS credentials: {CREDENTIALS}"
    if isinstance(error, _SSO):
        return f"the AWS login has expired or is missing ({said}): run `aws sso login`"
    if isinstance(error, aws.LoginError):
        return f"the AWS login has expired or is missing ({said}): run `aws login`"
    if isinstance(error, aws.CredentialRetrievalError):
        return f"the profile gives no AWS credentials ({said}); run its credential_process by hand, or log in again"
    if isinstance(error, aws.NoRegionError):
        return "no AWS region: set AWS_REGION"
    if isinstance(error, aws.ProxyConnectionError):
        return f"AWS cannot be asked: {said}; check HTTPS_PROXY"
    if isinstance(error, _UNREACHED):
        return f"AWS cannot be asked: {said}; check the network, HTTPS_PROXY and AWS_ENDPOINT_URL"
    if isinstance(error, aws.SSLError):
        return f"AWS cannot be asked: {said}; check AWS_CA_BUNDLE, and whether a proxy speaks in its place"
    if isinstance(error, aws.HTTPClientError) and _HEADER in said:
        return (
            "the AWS credentials cannot be used: one of them has a line break or another character that no header may have; "
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the profile"
        )
    if isinstance(error, aws.HTTPClientError):
        return f"the connection to AWS broke: {said}; run the same command again"
    if isinstance(error, aws.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        if error.operation_name in _REFUSED_SOURCES:
            why = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
            return f"AWS refuses {error.operation_name} ({code}: {why}); {_REFUSED_SOURCES[error.operation_name]}"
        return f"the AWS credentials have expired: log in again ({LOG_IN})" if code in EXPIRED else None
    if isinstance(error, aws.BotoCoreError):
        return f"AWS cannot be asked: {said}"
    # `Invalid endpoint`, invalid numbers, and a value in place of a section of the profile.
    if (isinstance(error, ValueError) and _passed(error, _BOTOCORE)) or (
        isinstance(error, AttributeError) and _passed(error, _BOTOCORE / "args.py")
    ):
        return f"the AWS configuration cannot be used: {said}; check the variables AWS_… and ~/.aws/config"
    if isinstance(error, EOFError) and _passed(error, _BOTOCORE):
        return "AWS asks for a code of MFA, and nobody is there to type it; log in first, and use the credentials of that"
    if isinstance(error, OSError) and error.filename and _passed(error, _BOTOCORE / "credentials.py"):
        return (
            f"the profile gives no AWS credentials: {error.filename}: {error.strerror}; correct "
            "AWS_WEB_IDENTITY_TOKEN_FILE, or the profile's web_identity_token_file or credential_process"
        )
    if isinstance(error, Exception) and _passed(error, _BOTOCORE / "credentials.py"):  # mostly of a credential_process
        return (
            f"no AWS credentials are to be had from the profile ({type(error).__name__}: {said}); "
            "run its credential_process by hand, or log in again"
        )
    return None


def _without_secrets(said: str) -> str:
    """Return the message in one line, without user names and passwords of addresses."""
    return _IN_AN_ADDRESS.sub("…@", " ".join(said.split()))


def _passed(error: BaseException, place: Path) -> bool:
    """Return whether an exception passed through a file, or a folder of files."""
    return any(Path(frame.filename).is_relative_to(place) for frame in traceback.extract_tb(error.__traceback__))
