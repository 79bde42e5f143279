"""Start of the External Secrets Operator. tests/system/e2e/test_gateway_keys.py shows that keys reach the gateway."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.platform import client_keys
from tests.twin.releases.chart_api import Api
from twin.charts import registry
from twin.charts.external_secrets import CHART, program
from twin.charts.external_secrets.program import ExternalSecrets
from twin.cluster import certificates
from twin.host import tools
from twin.host.home import TwinHome
from twin.releases import go_module
from twin.releases.chart import Announce, ChartContext, Release
from twin.releases.programs import Program

NAMESPACE = "client-keys"
AGENT = "http://127.0.0.1:5003/v1/credentials"


def test_it_runs_with_the_charts_arguments_on_loopback_and_reaches_the_twin_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    kept: list[Program] = []

    async def keep(home: TwinHome, running: Sequence[Program], ready: Announce) -> None:
        kept.extend(running)

    async def announce() -> None:
        pass

    monkeypatch.setattr(program, "keep_running", keep)
    monkeypatch.setattr(tools, "built", lambda _: {program.NAME: Path("/built/external-secrets")})
    home = TwinHome(tmp_path / "home")
    certificates.ensure(home)
    api = Api(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/external-secrets", {})
    urls = [f"http://127.0.0.1:{port}" for port in (6443, 5000, 5001, 5002)]
    context = ChartContext(home, api, *urls, "eu-central-1", AGENT)  # type: ignore[arg-type]
    release = Release("external-secrets", NAMESPACE, "external-secrets", "2.9.0", client_keys.values(), "one")
    asyncio.run(ExternalSecrets(context).run(release, announce))
    ((service),) = [one.service for one in kept]
    addresses = {flag.partition("=")[0]: flag.partition("=")[2] for flag in service.argv if "-addr=" in flag}
    assert set(addresses) == {"--metrics-addr", "--live-addr"}
    assert all(address.startswith("127.0.0.1:") for address in addresses.values())
    assert [flag for flag in service.argv if "leader" in flag] == ["--enable-leader-election=false"]
    assert {"--namespace=client-keys", "--enable-cluster-store-reconciler=false"} < set(service.argv)
    assert {name: value for name, value in service.env.items() if name.startswith("AWS_")} == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5000",
        "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:5001",
        "AWS_SECRETSMANAGER_ENDPOINT": "http://127.0.0.1:5000",
        "AWS_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": AGENT,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(home.path / "charts" / "external-secrets" / "aws-token"),
    }


def test_its_rights_are_what_helm_makes_of_the_chart() -> None:
    objects = go_module.accounts(CHART, NAMESPACE, client_keys.values())
    assert {item["kind"] for item in objects} == {"ServiceAccount", "Role", "RoleBinding"}


@pytest.mark.parametrize(
    ("gateway", "wanted"),
    [
        (None, False),
        ({"replicas": 2}, False),
        ({"clients": {"a": {}}}, True),
        ({"clients": {"a": {"claim": "x"}}, "jwt": {"issuer": "https://x/"}}, False),
    ],
    ids=["no gateway", "no clients", "clients with keys", "clients with tokens"],
)
def test_it_is_built_for_a_stack_with_keys(gateway: object, wanted: bool) -> None:
    assert ("external-secrets" in registry.families({"triton-eks:gateway": gateway})) is wanted
