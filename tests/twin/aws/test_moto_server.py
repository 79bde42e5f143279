"""The real moto server: detecting its memory loss, and not showing behavior that S3 never shows."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response

from tests.modelctl.servers import moto_server as moto_server_of_tests
from twin.aws import moto_process, moto_server
from twin.host import processes
from twin.host.home import TwinHome


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
    processes.wait_until(lambda: not record.alive(), "the killed server to be gone", 60)
    assert moto_server.ensure(home, said.append) is True
    assert home.load_endpoints().aws_url == url

    iam = boto3.client(
        "iam", endpoint_url=url, region_name="us-west-2", aws_access_key_id="test", aws_secret_access_key="test"
    )
    policy = iam.get_policy(PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")["Policy"]
    assert policy["PolicyName"] == "AmazonEKSClusterPolicy"


def test_of_those_who_may_only_create_an_object_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    look, both_have_looked = S3Backend.get_object, threading.Barrier(2)

    def look_together(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_have_looked.wait(1)  # times out if the second reads only after the first has written
        return found

    monkeypatch.setattr(S3Response, "put_object", moto_process._conditional_put_object)
    monkeypatch.setattr(S3Backend, "get_object", look_together)
    with moto_server_of_tests() as url, ThreadPoolExecutor(2) as writers:
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
        s3.create_bucket(Bucket="results")

        def create(_: int) -> str:
            try:
                s3.put_object(Bucket="results", Key="result", Body=b"{}", IfNoneMatch="*")
            except ClientError as error:
                return str(error.response["Error"]["Code"])
            return "created"

        assert sorted(writers.map(create, range(2))) == ["PreconditionFailed", "created"]


def test_a_server_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    home.save_endpoints(aws_url="http://127.0.0.1:1")
    with pytest.raises(
        processes.ProcessFailed, match=r"^moto on http://127\.0\.0\.1:1/? does not do PutParameter: .*; try again$"
    ):
        moto_server.acknowledge(home)
