"""Start of KEDA's programs. tests/system/e2e/test_keda.py shows that they scale."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.platform import keda as keda_chart
from tests.twin.releases.chart_api import Api
from twin.charts.keda import programs as keda
from twin.charts.keda.programs import Keda
from twin.charts.registry import CHARTS
from twin.cluster import certificates
from twin.host import tools
from twin.host.home import TwinHome
from twin.releases import go_module
from twin.releases.chart import Announce, ChartContext, Release
from twin.releases.programs import Program

ROLE = "arn:aws:iam::123456789012:role/keda-operator"
ACCOUNT = "/api/v1/namespaces/scalers/serviceaccounts/keda-operator"


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    home = TwinHome(tmp_path / "home")
    certificates.ensure(home)
    return home


def stand_in(home: TwinHome, api: Api) -> Keda:
    urls = (
        f"{scheme}://127.0.0.1:{port}" for scheme, port in (("https", 6443), ("http", 5000), ("http", 5001), ("http", 5002))
    )
    return Keda(ChartContext(home, api, *urls, "eu-central-1", ""))  # type: ignore[arg-type]


def start(home: TwinHome, api: Api, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Return the programs that an installation with these values keeps running."""
    kept: list[Program] = []

    async def keep(home: TwinHome, programs: Sequence[Program], ready: Announce) -> None:
        await ready()
        kept.extend(programs)

    async def announce() -> None:
        pass

    built = {name: Path("/built") / name for name in (keda.OPERATOR, keda.ADAPTER)}
    monkeypatch.setattr(keda, "keep_running", keep)
    monkeypatch.setattr(tools, "built", lambda families: built)
    release = Release("keda", "scalers", "keda", "2.20.2", values, "one")
    asyncio.run(stand_in(home, api).run(release, announce))
    return kept


def test_the_operator_reaches_the_twin_and_nothing_else(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    api = Api(ACCOUNT, {"eks.amazonaws.com/role-arn": ROLE})
    operator, adapter = start(home, api, keda_chart.values(ROLE, monitored=False), monkeypatch)
    env = operator.service.env
    assert {name: value for name, value in env.items() if name.startswith("AWS_")} == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5000",
        "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:5001",
        "AWS_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(home.path / "charts" / "keda" / "aws-token"),
    }
    assert (env["HTTP_PROXY"], env["HTTPS_PROXY"]) == ("http://127.0.0.1:5002",) * 2
    assert (env["POD_NAMESPACE"], env["KEDA_RESTRICT_SECRET_ACCESS"]) == ("scalers", "true")
    assert (home.path / "charts" / "keda" / "token").read_text() == "token for the API server"
    assert (home.path / "charts" / "keda" / "aws-token").read_text() == "token for sts.amazonaws.com"
    addresses = [flag for flag in operator.service.argv if "-address=" in flag]
    assert len(addresses) == 3
    assert all("-address=127.0.0.1:" in flag for flag in addresses)
    assert {"PATH", "HOME", "TMPDIR"} == set(adapter.service.env)


def test_without_a_role_it_has_none(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, _ = start(home, Api(ACCOUNT), {}, monkeypatch)
    assert not {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"} & set(operator.service.env)
    assert operator.service.env["KEDA_RESTRICT_SECRET_ACCESS"] == "false"


def test_the_api_server_hands_external_metrics_to_the_metrics_server(
    home: TwinHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(ACCOUNT)
    _, adapter = start(home, api, {}, monkeypatch)
    service, registration = api.applied.values()
    [port] = [flag.partition("=")[2] for flag in adapter.service.argv if flag.startswith("--secure-port=")]
    assert service["spec"]["ports"][0]["port"] == int(port)
    assert registration["spec"]["service"] == {
        "name": "keda-metrics-apiserver",
        "namespace": "scalers",
        "port": int(port),
    }


def test_another_ones_metrics_server_is_left_alone(home: TwinHome) -> None:
    api = Api(ACCOUNT, service={"name": "keda-metrics-apiserver", "namespace": "scalers"})
    asyncio.run(stand_in(home, api).remove())
    assert [path.rpartition("/")[2] for path in api.deleted] == [
        "v1beta1.external.metrics.k8s.io",
        "keda-metrics-apiserver",
    ]
    other = Api(ACCOUNT, service={"name": "prometheus-adapter", "namespace": "monitoring"})
    asyncio.run(stand_in(home, other).remove())
    assert other.deleted == []


def test_the_accounts_are_those_of_the_module_in_the_releases_namespace() -> None:
    objects = go_module.accounts(CHARTS["keda"], "scalers", keda_chart.values(ROLE, monitored=False))
    kinds = [item["kind"] for item in objects]
    assert kinds[0] == "ServiceAccount"
    assert set(kinds) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert objects[0]["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE}
    subjects = {subject["namespace"] for item in objects for subject in item.get("subjects", [])}
    assert subjects == {"scalers", "kube-system"}
    assert go_module.accounts(CHARTS["nvidia-device-plugin"], "x", {}) == []
