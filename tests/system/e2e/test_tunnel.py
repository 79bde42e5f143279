"""`kubectl` through `stackctl tunnel`: it uses Go's client, as Pulumi's provider and Helm do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tests.command import run
from tests.stackctl.conftest import ApiServer, api
from tests.stackctl.tunnel.conftest import Programs, account, cluster, node, programs
from twin.host import tools

__all__ = ["account", "api", "cluster", "node", "programs"]

# As Pulumi's provider does: with the cluster's kubeconfig, which names no proxy, and HTTPS_PROXY.
_WITHOUT_PROXY_URL = """\
import json, os, sys
config = json.load(open(os.environ["KUBECONFIG"]))
del config["clusters"][0]["cluster"]["proxy-url"]
json.dump(config, open(sys.argv[1], "w"))
os.execv(sys.argv[2], [sys.argv[2], "--kubeconfig", sys.argv[1], *sys.argv[3:]])
"""
# As in another terminal that only exported KUBECONFIG.
_WITHOUT_VARIABLES = """\
import os, sys
os.environ.pop("HTTPS_PROXY"), os.environ.pop("https_proxy")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="module")
def kubectl() -> Path:
    """A first build takes minutes and says so."""
    return tools.ensure(["control-plane"], Console(stderr=True))["kubectl"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", [_WITHOUT_PROXY_URL, _WITHOUT_VARIABLES], ids=["HTTPS_PROXY", "KUBECONFIG"])
def test_kubectl_asks_the_private_api_server(
    kubectl: Path,
    cluster: str,
    node: Callable[..., str],
    programs: Programs,
    api: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    way: str,
) -> None:
    node()
    monkeypatch.setenv("HOME", str(tmp_path))
    command = [sys.executable, "-c", way, tmp_path / "kubeconfig", kubectl, "get", "--raw", "/version"]
    ended = run("stackctl", "tunnel", "staging", "--", *command)
    said = capfd.readouterr()
    assert (ended.exit_code, said.err) == (0, "")
    assert json.loads(said.out)["gitVersion"] == "v1.35.2-eks"
    assert api.asked == [("/version", "Bearer token-of-triton-staging")]
    assert programs.ended() == 1
