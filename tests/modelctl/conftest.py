"""A copy of the sample models, and a bucket in a moto that lives in this process."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from modelctl.store import Store, open_store

BUCKET = "triton-test-models"
SAMPLES = Path(__file__).parents[2] / "models"


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


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The sample model repository, free to be broken."""
    return Path(shutil.copytree(SAMPLES, tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def s3() -> Iterator[object]:
    """A boto3 client on a moto with the bucket in it."""
    with mock_aws():
        client = boto3.client("s3", region_name="us-west-2")
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield client


@pytest.fixture
def store(s3: object) -> Store:
    """The store that modelctl opens on that bucket, with parts as small as S3 allows."""
    return open_store(BUCKET, part_bytes=5 * 1024 * 1024)
