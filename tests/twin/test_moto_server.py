"""The real moto server: what is tested is that its loss of memory is noticed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from twin import moto_server, processes
from twin.home import TwinHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[TwinHome]:
    home = TwinHome(tmp_path)
    yield home
    processes.stop_all(home, seconds=5)


def test_a_server_is_fresh_until_acknowledged_and_again_after_it_was_killed(home: TwinHome) -> None:
    said: list[str] = []
    assert moto_server.ensure(home, said.append) is True
    url = home.load_endpoints().aws_url
    assert said == [f"started moto (AWS) on {url}"]
    assert moto_server.ensure(home, said.append) is True
    moto_server.acknowledge(home)
    assert moto_server.ensure(home, said.append) is False
    assert len(said) == 1

    record = processes.find(home, moto_server.NAME)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    processes.wait_until(lambda: not record.alive(), "the killed server to be gone", 10)
    assert moto_server.ensure(home, said.append) is True
    assert home.load_endpoints().aws_url == url

    iam = boto3.client(
        "iam", endpoint_url=url, region_name="us-west-2", aws_access_key_id="test", aws_secret_access_key="test"
    )
    policy = iam.get_policy(PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")["Policy"]
    assert policy["PolicyName"] == "AmazonEKSClusterPolicy"


def test_a_server_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    home.save_endpoints(aws_url="http://127.0.0.1:1")
    with pytest.raises(
        processes.ProcessFailed, match=r"^moto on http://127\.0\.0\.1:1/? does not do PutParameter: .*; try again$"
    ):
        moto_server.acknowledge(home)
