"""Credentials of every kind: each reaches AWS, or the command prints a remedy. The servers are on loopback."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from botocore.credentials import SSOProvider
from botocore.tokens import SSOTokenProvider
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from console.program import guard
from stackctl.account.guard import IDENTITY_OPERATIONS, caller
from stackctl.account.read_only import Readers
from tests import aws_environment, http_server

ROLE = "arn:aws:iam::123456789012:role/reader"
SESSION = "arn:aws:iam::123456789012:user/jane"
_STS = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::123456789012:user/{key}</Arn><UserId>u</UserId><Account>123456789012</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""
_WEB = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>OF-THE-WEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
_REFUSAL = """<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"""


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """Yield STS, the portal of IAM Identity Center and the sign-in service. STS returns the access key's caller."""

    class Answers(http_server.Handler):
        def do_POST(self) -> None:
            body = self.body().decode()
            if self.path == "/v1/token":  # https://docs.aws.amazon.com/signin/latest/APIReference
                self._sign_in(json.loads(body))
            elif "Action=AssumeRoleWithWebIdentity" in body:
                if "WebIdentityToken=right" in body:
                    self.answer(200, _WEB.encode(), content_type="text/xml")
                else:
                    refusal = _REFUSAL.format(code="InvalidIdentityToken", message="No OpenIDConnect provider found")
                    self.answer(400, refusal.encode(), content_type="text/xml")
            else:
                key = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
                if key == "WRONG":
                    refusal = _REFUSAL.format(code="InvalidClientTokenId", message="The security token is invalid")
                    self.answer(403, refusal.encode(), content_type="text/xml")
                else:
                    self.answer(200, _STS.format(key=key).encode(), content_type="text/xml")

        def do_GET(self) -> None:
            if not self.path.startswith("/federation/credentials?role_name=reader"):
                refusal = json.dumps({"message": "No access"}).encode()
                self.answer(403, refusal, x_amzn_ErrorType="ForbiddenException", content_type="application/json")
                return
            self._json({"roleCredentials": _keys("OF-SSO", expiration=4070908800000)})

        def _sign_in(self, asked: dict[str, str]) -> None:
            if asked["refreshToken"] == "right" and self.headers["DPoP"].count(".") == 2:
                self._json({"accessToken": _keys("OF-LOGIN"), "tokenType": "t", "expiresIn": 900, "refreshToken": "next"})
            else:
                refusal = json.dumps({"error": "TOKEN_EXPIRED", "message": "expired"}).encode()
                self.answer(401, refusal, x_amzn_ErrorType="AccessDeniedException", content_type="application/json")

        def _json(self, document: object) -> None:
            self.answer(200, json.dumps(document).encode(), content_type="application/json")

    with http_server.listening(Answers) as server:
        yield server.url


def _keys(key: str, **more: object) -> dict[str, object]:
    return {"accessKeyId": key, "secretAccessKey": "s", "sessionToken": "t", **more}


class Who(Protocol):
    def __call__(self, config: str, **variables: str) -> tuple[int, str]:
        """Return the exit code and output of the first step of each stackctl command."""


@pytest.fixture
def who(aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Who:
    """Return a function that runs with a home in tmp_path, whose ~/.aws/config has the given text."""
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # botocore read HOME when it was imported.
    for provider in (SSOProvider, SSOTokenProvider):
        monkeypatch.setattr(provider, "_SSO_TOKEN_CACHE_DIR", str(tmp_path / ".aws" / "sso" / "cache"))
    given = {"AWS_ENDPOINT_URL": aws, "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": str(tmp_path / "config")}

    def asked(config: str, **variables: str) -> tuple[int, str]:
        (tmp_path / "config").write_text(config, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**given, **variables}.items():
                patch.setenv(name, value)
            code = guard("stackctl", lambda: print(caller(Readers("us-west-2", IDENTITY_OPERATIONS)).arn))
        said = capsys.readouterr()
        return code, (said.out + said.err).replace(str(tmp_path), "~").strip()

    return asked


def caller_of(key: str) -> tuple[int, str]:
    return 0, f"arn:aws:iam::123456789012:user/{key}"


PROFILE = {"AWS_PROFILE": "p"}


def test_an_access_key_is_used(who: Who, tmp_path: Path) -> None:
    key = {"AWS_ACCESS_KEY_ID": "STATIC", "AWS_SECRET_ACCESS_KEY": "s"}
    assert who("", **key) == caller_of("STATIC")
    assert who("", **{**key, "AWS_ACCESS_KEY_ID": "WRONG"}) == (
        2,
        "error: AWS does not accept the credentials (InvalidClientTokenId): log in again (`aws login` or `aws sso login`), "
        "or correct the access key",
    )


SSO = """[profile p]
sso_session = company
sso_account_id = 123456789012
sso_role_name = {role}
[sso-session company]
sso_start_url = https://example.awsapps.com/start
sso_region = us-west-2
"""


def _sso_login(home: Path, until: datetime) -> None:
    """Write the files of `aws sso login`: ~/.aws/sso/cache, named by the SHA-1 of the session's name."""
    cache = home / ".aws" / "sso" / "cache" / f"{hashlib.sha1(b'company', usedforsecurity=False).hexdigest()}.json"
    cache.parent.mkdir(parents=True)
    token = {"accessToken": "t", "expiresAt": f"{until:%Y-%m-%dT%H:%M:%SZ}", "region": "us-west-2"}
    cache.write_text(json.dumps(token), encoding="utf-8")


def test_a_profile_of_sso_is_used(who: Who, tmp_path: Path) -> None:
    _sso_login(tmp_path, datetime.now(UTC) + timedelta(hours=1))
    assert who(SSO.format(role="reader"), **PROFILE) == caller_of("OF-SSO")
    assert who(SSO.format(role="other"), **PROFILE) == (
        2,
        "error: AWS refuses GetRoleCredentials (ForbiddenException: No access); check sso_account_id and sso_role_name "
        "of the profile",
    )


@pytest.mark.parametrize("expired", [True, False])
def test_a_profile_of_sso_without_a_login_says_how_to_log_in(who: Who, expired: bool, tmp_path: Path) -> None:
    if expired:
        _sso_login(tmp_path, datetime.now(UTC) - timedelta(hours=1))
    code, said = who(SSO.format(role="reader"), **PROFILE)
    assert (code, said.endswith("): run `aws sso login`")) == (2, True), said
    assert said.startswith("error: the AWS login has expired or is missing (")


LOGIN = f"[profile p]\nlogin_session = {SESSION}\n"


def _login(home: Path, until: datetime, refresh: str = "right") -> None:
    """Write the files of `aws login`: ~/.aws/login/cache, named by the SHA-256 of the session's ARN."""
    cache = home / ".aws" / "login" / "cache" / f"{hashlib.sha256(SESSION.encode()).hexdigest()}.json"
    cache.parent.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    access = _keys("CACHED", accountId="123456789012", expiresAt=f"{until:%Y-%m-%dT%H:%M:%SZ}")
    token = {"accessToken": access, "refreshToken": refresh, "dpopKey": key.decode(), "clientId": "c", "tokenType": "t"}
    cache.write_text(json.dumps(token), encoding="utf-8")


def test_a_profile_of_aws_login_is_used(who: Who, tmp_path: Path) -> None:
    _login(tmp_path, datetime.now(UTC) + timedelta(hours=1))
    assert who(LOGIN, **PROFILE) == caller_of("CACHED")


def test_an_expired_token_of_aws_login_is_refreshed_with_its_key(who: Who, tmp_path: Path) -> None:
    _login(tmp_path, datetime.now(UTC) - timedelta(hours=1))
    assert who(LOGIN, **PROFILE) == caller_of("OF-LOGIN")


@pytest.mark.parametrize("expired", [True, False])
def test_a_profile_of_aws_login_without_a_login_says_how_to_log_in(who: Who, expired: bool, tmp_path: Path) -> None:
    if expired:
        _login(tmp_path, datetime.now(UTC) - timedelta(days=1), refresh="old")
    code, said = who(LOGIN, **PROFILE)
    assert (code, said.endswith("): run `aws login`")) == (2, True), said
    assert said.startswith("error: the AWS login has expired or is missing (")


def test_a_process_that_gives_credentials_is_used(who: Who, tmp_path: Path) -> None:
    given = json.dumps({"Version": 1, "AccessKeyId": "OF-A-PROCESS", "SecretAccessKey": "s"})
    (tmp_path / "given.json").write_text(given, encoding="utf-8")
    process = "[profile p]\ncredential_process = {}\n"
    assert who(process.format(f"cat {tmp_path}/given.json"), **PROFILE) == caller_of("OF-A-PROCESS")
    assert who(process.format(f"{sys.executable} -c 'exit(\"no vault\")'"), **PROFILE) == (
        2,
        "error: the profile gives no AWS credentials (Error when retrieving credentials from custom-process: no vault); "
        "run its credential_process by hand, or log in again",
    )
    assert who(process.format("nowhere-on-path"), **PROFILE) == (
        2,
        "error: the profile gives no AWS credentials: nowhere-on-path: No such file or directory; correct "
        "AWS_WEB_IDENTITY_TOKEN_FILE, or the profile's web_identity_token_file or credential_process",
    )


def test_a_web_identity_is_used(who: Who, tmp_path: Path) -> None:
    token = tmp_path / "token"
    web = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    assert who("", **web) == (
        2,
        "error: the profile gives no AWS credentials: ~/token: No such file or directory; correct "
        "AWS_WEB_IDENTITY_TOKEN_FILE, or the profile's web_identity_token_file or credential_process",
    )
    token.write_text("wrong", encoding="utf-8")
    assert who("", **web) == (
        2,
        "error: AWS refuses AssumeRoleWithWebIdentity (InvalidIdentityToken: No OpenIDConnect provider found); check "
        "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE (or the profile's role_arn and web_identity_token_file), "
        "and the trust policy of the role",
    )
    token.write_text("right", encoding="utf-8")
    assert who("", **web) == caller_of("OF-THE-WEB")


def test_no_credentials_at_all_are_told_with_both_ways_to_log_in(who: Who, tmp_path: Path) -> None:
    assert who("") == (
        2,
        "error: there are no AWS credentials: set AWS_PROFILE (after `aws login` or `aws sso login`), or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    )
