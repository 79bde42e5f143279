"""What every test on real servers shares: pods of the rendered chart, a model repository, a bucket. See `pods`."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.modelctl.servers import moto_server
from tests.serving.pods import Kubelet, running_kubelet

BUCKET = "triton-test-models"


@pytest.fixture(autouse=True)
def _no_aws_configuration_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-west-2")


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
    """An empty model repository directory; `tests.serving.models.write` fills it."""
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
