"""Start of prometheus-adapter. tests/system/e2e/test_hpa.py shows that it returns Prometheus's numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.platform import prometheus_adapter as adapter_chart
from spec.charts import PROMETHEUS_ADAPTER
from spec.names import PROMETHEUS_URL
from tests.twin.releases.chart_api import Api
from twin.charts.prometheus_adapter import program as prometheus_adapter
from twin.charts.prometheus_adapter.program import PrometheusAdapter
from twin.charts.registry import CHARTS
from twin.cluster import certificates
from twin.host import tools
from twin.host.home import TwinHome
from twin.releases import go_module
from twin.releases.chart import Announce, ChartContext, ChartFailed, Release
from twin.releases.programs import Program

ACCOUNT = "/api/v1/namespaces/metrics/serviceaccounts/prometheus-adapter"
SERVER, PROXY = "https://127.0.0.1:6443", "http://127.0.0.1:5002"


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    home = TwinHome(tmp_path / "home")
    certificates.ensure(home)
    return home


def stand_in(home: TwinHome, api: Api) -> PrometheusAdapter:
    return PrometheusAdapter(ChartContext(home, api, SERVER, "", "", PROXY, "us-west-2", ""))  # type: ignore[arg-type]


def start(home: TwinHome, api: Api, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return the program that an installation with these values keeps running."""
    kept: list[Program] = []

    async def keep(home: TwinHome, programs: Sequence[Program], ready: Announce) -> None:
        await ready()
        kept.extend(programs)

    async def announce() -> None:
        assert len(api.applied) == 2, "ready before the API server hands the group over"

    monkeypatch.setattr(prometheus_adapter, "keep_running", keep)
    monkeypatch.setattr(tools, "built", lambda families: {name: Path("/built") / name for name in families})
    release = Release(PROMETHEUS_ADAPTER.name, "metrics", PROMETHEUS_ADAPTER.name, "5.3.0", values, "one")
    asyncio.run(stand_in(home, api).run(release, announce))
    (program,) = kept
    return program


def flags(program: Program) -> dict[str, str]:
    pairs = (word.removeprefix("--").partition("=") for word in program.service.argv[1:])
    return {name: value for name, _, value in pairs}


def test_the_adapter_has_the_rules_and_the_prometheus_of_the_programs_values(
    home: TwinHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = adapter_chart.values(PROMETHEUS_URL)
    program = start(home, Api(ACCOUNT), values, monkeypatch)
    given = flags(program)
    assert program.service.argv[0] == "/built/prometheus-adapter"
    assert (given["prometheus-url"], given["metrics-relist-interval"]) == (PROMETHEUS_URL, values["metricsRelistInterval"])
    assert yaml.safe_load(Path(given["config"]).read_text()) == {"rules": values["rules"]["custom"]}
    assert given["bind-address"] == "127.0.0.1"


def test_it_reaches_the_api_server_as_its_account_and_prometheus_through_the_proxy_alone(
    home: TwinHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "mine")
    program = start(home, Api(ACCOUNT), adapter_chart.values(PROMETHEUS_URL), monkeypatch)
    assert program.service.env.keys() == {"PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    assert (program.service.env["HTTP_PROXY"], program.service.env["HTTPS_PROXY"]) == (PROXY, PROXY)
    given = flags(program)
    (kubeconfig,) = {given[f"{use}-kubeconfig"] for use in ("lister", "authentication", "authorization")}
    document = yaml.safe_load(Path(kubeconfig).read_text())
    assert document["clusters"][0]["cluster"]["server"] == SERVER
    assert Path(document["users"][0]["user"]["tokenFile"]).read_text() == "token for the API server"


def test_the_api_server_hands_custom_metrics_to_it(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(ACCOUNT)
    port = int(flags(start(home, api, adapter_chart.values(PROMETHEUS_URL), monkeypatch))["secure-port"])
    service, registration = api.applied.values()
    assert (service["spec"]["externalName"], service["spec"]["ports"][0]["port"]) == ("localhost", port)
    assert registration["metadata"]["name"] == "v1beta1.custom.metrics.k8s.io"
    assert registration["spec"]["service"] == {"name": "prometheus-adapter", "namespace": "metrics", "port": port}


def test_other_rules_start_it_again(home: TwinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    values = adapter_chart.values(PROMETHEUS_URL)
    first = start(home, Api(ACCOUNT), values, monkeypatch).service
    assert start(home, Api(ACCOUNT), values, monkeypatch).service == first
    fewer = {**values, "rules": {**values["rules"], "custom": values["rules"]["custom"][:1]}}
    assert start(home, Api(ACCOUNT), fewer, monkeypatch).service != first


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({}, "rules.default"),
        ({"default": True}, "rules.default"),
        ({"default": False, "external": [{}], "resource": {"cpu": {}}}, "rules.external, rules.resource"),
        ({"default": False, "existing": "mine"}, "rules.existing"),
    ],
)
def test_rules_that_only_the_chart_has_are_refused(rules: dict[str, Any], named: str) -> None:
    with pytest.raises(ChartFailed, match=rf"of another kind than `custom`: {named}\. .* set `rules\.default: false`"):
        prometheus_adapter.configuration({"rules": rules})


def test_with_the_release_goes_what_it_registered_and_nothing_of_anybody_else(home: TwinHome) -> None:
    api = Api(ACCOUNT, service={"name": "prometheus-adapter", "namespace": "metrics"})
    asyncio.run(stand_in(home, api).remove())
    assert [path.rpartition("/")[2] for path in api.deleted] == ["v1beta1.custom.metrics.k8s.io", "prometheus-adapter"]
    other = Api(ACCOUNT, service={"name": "datadog", "namespace": "metrics"})
    asyncio.run(stand_in(home, other).remove())
    assert other.deleted == []


def test_the_accounts_are_those_of_the_module_in_the_releases_namespace() -> None:
    objects = go_module.accounts(CHARTS["prometheus-adapter"], "metrics", {})
    assert [(item["kind"], item["metadata"].get("namespace")) for item in objects] == [
        ("ServiceAccount", "metrics"),
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("ClusterRoleBinding", None),
        ("RoleBinding", "kube-system"),
    ]
    assert {(s["name"], s["namespace"]) for item in objects for s in item.get("subjects", [])} == {
        ("prometheus-adapter", "metrics")
    }
    assert {verb for rule in objects[1]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_the_accounts_are_of_the_version_that_runs_and_it_brings_no_kinds() -> None:
    module = CHARTS["prometheus-adapter"].module
    assert module is not None and module.version == tools.FAMILIES["prometheus-adapter"].version()
    assert go_module.definitions(CHARTS["prometheus-adapter"]) == ()
