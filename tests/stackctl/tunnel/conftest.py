"""A moto account with a private cluster, and an `aws` that forwards a port to its API server."""

from __future__ import annotations

import base64
import json
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.eks.models import eks_backends

from tests.aws_environment import use_none_of_the_developers
from tests.stackctl.conftest import HOST, ApiServer

ACCOUNT, REGION = "123456789012", "us-west-2"

# Like the real one, `aws` starts the plugin and ignores Ctrl-C; the plugin forwards each connection and exits at SIGINT.
_AWS = """\
import json, os, signal, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "calls"), "a") as calls:
    print(json.dumps({"pid": os.getpid(), "arguments": sys.argv[1:]}), file=calls)
if "get-token" in sys.argv:
    status = {"token": "token-of-" + sys.argv[sys.argv.index("--cluster-name") + 1]}
    print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "status": status}))
    sys.exit(0)
refused = os.path.join(here, "refused")
if os.path.exists(refused) and sys.argv[sys.argv.index("--target") + 1] in open(refused).read():
    print("An error occurred (TargetNotConnected): i is not connected.", file=sys.stderr)
    sys.exit(254)
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(subprocess.run([os.path.join(here, "session-manager-plugin")]).returncode)
"""
_PLUGIN = """\
import os, signal, socket, sys, threading
here = os.path.dirname(os.path.abspath(__file__))
def end(*_):
    open(os.path.join(here, "ended"), "a").write("session\\n")
    os._exit(0)
signal.signal(signal.SIGINT, end)
listener = socket.create_server(("127.0.0.1", 0))
print("\\nStarting session with SessionId: test", flush=True)
print("Port %d opened for sessionId test.\\nWaiting for connections..." % listener.getsockname()[1], flush=True)
def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", int(open(os.path.join(here, "port")).read())))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


@dataclass(frozen=True)
class Programs:
    """`aws` and its plugin, in a folder that is first on PATH."""

    folder: Path

    def sessions(self) -> list[dict[str, Any]]:
        """Return the calls of `aws ssm start-session`: `pid` and `arguments`."""
        if not (self.folder / "calls").exists():
            return []
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [call for call in calls if "start-session" in call["arguments"]]

    def ended(self) -> int:
        """Return the number of sessions that the plugin has closed properly."""
        return len((self.folder / "ended").read_text().splitlines()) if (self.folder / "ended").exists() else 0

    def refuses(self, *nodes: str) -> None:
        """Make `aws` refuse sessions through these nodes."""
        (self.folder / "refused").write_text(" ".join(nodes))


@pytest.fixture
def programs(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "port").write_text(str(api.port))
    for name, content in (("aws", _AWS), ("session-manager-plugin", _PLUGIN)):
        (folder / name).write_text(f"#!{sys.executable} -S\n{content}")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Programs(folder)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty account, on a machine without a proxy."""
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


@pytest.fixture
def cluster(account: None, api: ApiServer) -> str:
    """Create staging's private cluster, at the server `api`; return its name."""
    boto3.client("eks", REGION).create_cluster(
        name="triton-staging",
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/control-plane",
        resourcesVpcConfig={"endpointPublicAccess": False, "endpointPrivateAccess": True},
    )
    made = eks_backends[ACCOUNT][REGION].clusters["triton-staging"]
    made.endpoint = f"https://{HOST}"
    made.certificate_authority = {"data": base64.b64encode(api.authority).decode()}
    return "triton-staging"


@pytest.fixture
def node(account: None) -> Callable[..., str]:
    """Return `node()`, which starts an instance with a staging system node's tags and returns its id."""

    def start(name: str = "triton-staging-system", project: str = "triton-eks") -> str:
        tags = [{"Key": "Name", "Value": name}, {"Key": "project", "Value": project}]
        started = boto3.client("ec2", REGION).run_instances(
            ImageId="ami-12345678",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        return str(started["Instances"][0]["InstanceId"])

    return start
