"""Programs that the twin creates from containers of Prometheus's pods, with prometheus-operator 0.93.1's arguments."""

import gzip
from pathlib import Path

import pytest

from tests.twin.charts.launches import ADDRESS, launch
from twin.charts.kube_prometheus_stack.pods import PROMETHEUS, RELOADER, localize, prometheus_arguments, reloader_arguments
from twin.host import tools
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter


def test_prometheus_listens_on_the_address_of_its_pod_alone() -> None:
    given = ["--config.file=/c/prometheus.env.yaml", "--web.enable-lifecycle", "--web.route-prefix=/"]
    assert prometheus_arguments(given, ADDRESS, 9090) == [*given, f"--web.listen-address={ADDRESS}:9090"]
    assert prometheus_arguments(["--web.listen-address=127.0.0.1:9090"], ADDRESS, 9090) == [
        f"--web.listen-address={ADDRESS}:9090"
    ]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_reloader_finds_prometheus_at_the_address_of_its_pod(host: str) -> None:
    given = [
        "/bin/prometheus-config-reloader",
        "--listen-address=:8080",
        f"--reload-url=http://{host}:9090/-/reload",
        "--config-file=/c/prometheus.yaml.gz",
        "--watched-dir=/rules",
    ]
    assert reloader_arguments(given, ADDRESS) == [
        f"--listen-address={ADDRESS}:8080",
        f"--reload-url=http://{ADDRESS}:9090/-/reload",
        "--config-file=/c/prometheus.yaml.gz",
        "--watched-dir=/rules",
    ]


def test_another_program_is_not_the_reloader() -> None:
    with pytest.raises(SpecError, match="not by 'sh -c true'"):
        reloader_arguments(["sh", "-c", "true"], ADDRESS)


def test_the_paths_of_the_configuration_are_moved_and_those_that_are_no_files_are_not() -> None:
    configuration = """\
rule_files:
- /etc/prometheus/rules/prometheus-p-rulefiles-0/*.yaml
scrape_configs:
- metrics_path: /prometheus
  kubernetes_sd_configs:
  - authorization:
      credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token
"""
    mounts = {
        "/etc/prometheus/rules/prometheus-p-rulefiles-0": Path("/h/rules"),
        "/var/run/secrets/kubernetes.io/serviceaccount": Path("/h/tokens"),
        "/prometheus": Path("/h/data"),
    }
    content = gzip.compress(configuration.encode())
    moved = localize("prometheus.yaml.gz", content, PathRewriter(mounts))
    expected = """\
rule_files:
- /h/rules/*.yaml
scrape_configs:
- metrics_path: /prometheus
  kubernetes_sd_configs:
  - authorization:
      credentials_file: /h/tokens/token
"""
    assert gzip.decompress(moved).decode() == expected
    assert localize("prometheus.yaml.gz", content, PathRewriter(mounts)) == moved
    assert localize("rules.yaml.gz", content, PathRewriter(mounts)) == content


def test_programs_that_are_not_built_are_the_pods_fault_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SpecError, match="is not built") as error:
        RELOADER.command(launch("/bin/prometheus-config-reloader"))
    assert error.value.reason == "RunContainerError"


def test_each_container_gets_its_program_and_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {name: tmp_path / name for name in ("prometheus", "prometheus-config-reloader")}
    monkeypatch.setattr(tools, "built", lambda families: programs)
    prometheus = PROMETHEUS.command(launch("--x", A="1"))
    assert prometheus.argv == (str(tmp_path / "prometheus"), "--x", f"--web.listen-address={ADDRESS}:9090")
    assert sorted(prometheus.env) == ["A", "LANG", "PATH"]
