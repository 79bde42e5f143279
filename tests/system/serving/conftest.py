"""Fixtures of tests on real servers: pods of the rendered chart, a model repository, a bucket. See `pods`."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests import aws_environment
from tests.modelctl.servers import moto_server
from tests.system.serving.pods import Kubelet, running_kubelet

BUCKET = "triton-test-models"


@pytest.fixture(autouse=True)
def _no_aws_configuration_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the twin prepares the server's backend directory, once a run."""
    return tmp_path_factory.mktemp("triton-backends")


@pytest.fixture
def kubelet(tmp_path: Path, triton_cache: Path) -> Iterator[Kubelet]:
    """Starts pods: `kubelet.pod({"echo": 1}, repository).start().until_ready()`; they end with the test."""
    with running_kubelet(tmp_path / "node", triton_cache) as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty model repository directory; `tests.system.serving.models.write` fills it."""
    path = tmp_path / "repository"
    path.mkdir()
    return path


@pytest.fixture
def moto() -> Iterator[str]:
    """The URL of a moto with the bucket `BUCKET`."""
    with moto_server() as url:
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=url)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield url
