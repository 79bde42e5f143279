"""The STS in front of moto, called by an AWS SDK as in KEDA's operator."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
import pytest
from aiohttp import web
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.worker.site import free_port
from twin.cluster.kube_api import Object
from twin.identity.irsa import IdentityRefused
from twin.identity.web_identity import WebIdentityService

ROLE = "arn:aws:iam::123456789012:role/queue-reader"
GIVEN = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class Api:
    """An API server that knows one token."""

    async def create(self, path: str, body: Object) -> Object:
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        assert body["spec"]["audiences"] == ["sts.amazonaws.com"]
        known = body["spec"]["token"] == "good-token"
        return {"status": {"authenticated": True} if known else {"error": "token has expired"}}


class Identity:
    """Trust policies that trust a role's name."""

    def check(self, role: str, token: str) -> None:
        if role != ROLE:
            raise IdentityRefused(f"the trust policy of {role} does not let KEDA assume it")


def ask(operation: str, **arguments: Any) -> Any:
    """Return the server's answer to an SDK, before an STS that gives everyone credentials; ClientError for a refusal."""

    async def sts(request: web.BaseRequest) -> web.Response:
        asked = await request.post()
        assert (asked["Action"], asked["RoleArn"], asked["WebIdentityToken"]) == (
            "AssumeRoleWithWebIdentity",
            ROLE,
            "good-token",
        )
        return web.Response(text=GIVEN, content_type="text/xml")

    async def exchange() -> Any:
        upstream, port = free_port(), free_port()
        runner = web.ServerRunner(web.Server(sts))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", upstream).start()
        service = WebIdentityService(Api(), Identity(), f"http://127.0.0.1:{upstream}")  # type: ignore[arg-type]
        await service.start(port)
        config = Config(signature_version=UNSIGNED, retries={"max_attempts": 0})
        client = boto3.session.Session(region_name="us-west-2").client(
            "sts", endpoint_url=f"http://127.0.0.1:{port}", config=config
        )
        try:
            return await asyncio.to_thread(getattr(client, operation), **arguments)
        finally:
            await runner.cleanup()

    return asyncio.run(exchange())


def assume(role: str = ROLE, token: str = "good-token") -> Any:  # noqa: S107 - a word that this test's server knows
    return ask("assume_role_with_web_identity", RoleArn=role, RoleSessionName="KEDA", WebIdentityToken=token)


def test_a_role_is_given_to_whom_it_trusts() -> None:
    assert assume()["Credentials"]["AccessKeyId"] == "AKIA"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"role": "arn:aws:iam::123456789012:role/other"}, "role/other does not let KEDA assume it"),
        ({"token": "forged"}, "the cluster does not know the token: token has expired"),
    ],
)
def test_nobody_else_gets_it(arguments: dict[str, str], why: str) -> None:
    with pytest.raises(ClientError, match=why) as raised:
        assume(**arguments)
    assert raised.value.response["Error"]["Code"] == "AccessDenied"


def test_other_operations_are_refused() -> None:
    with pytest.raises(ClientError, match="does AssumeRoleWithWebIdentity and not AssumeRole"):
        ask("assume_role", RoleArn=ROLE, RoleSessionName="KEDA")
