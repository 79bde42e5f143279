"""The handlers against a moto server, as the provider processes use them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from moto.server import ThreadedMotoServer

from tests.twin.aws.world import ADDON, BUCKET, World, kubernetes, network, roles
from twin.aws.base.clients import Clients


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    # This process may have used moto before, without the policies.
    httpx.post(f"{url}/moto-api/reset", timeout=60).raise_for_status()
    yield url
    server.stop()


def test_a_second_process_goes_on_where_the_first_one_stopped(endpoint: str) -> None:
    first = World(Clients("us-west-2", endpoint))
    network(first)
    roles(first)
    kubernetes(first)
    first.make(BUCKET, "bucket", bucket="models-over-http", tags={"a": "b"})
    second = World(Clients("us-west-2", endpoint), first.made)
    second.make(ADDON, "coredns", clusterName="c", addonName="coredns", addonVersion="v1.12.4-eksbuild.1")
    for name, made in first.made.items():
        assert second.read(name) == made.outputs, name
