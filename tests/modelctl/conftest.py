"""A copy of the sample models, and a bucket in the moto of this process."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from modelctl.store.bucket import Store, open_store
from tests import aws_environment
from tests.paths import ROOT

BUCKET = "triton-test-models"
SAMPLES = ROOT / "models"
SAMPLE_KEYS = [
    "classify/1/golden.json",
    "classify/1/model.py",
    "classify/config.pbtxt",
    "normalize/1/golden.json",
    "normalize/1/model.py",
    "normalize/config.pbtxt",
    "pipeline/1/.keep",
    "pipeline/1/golden.json",
    "pipeline/config.pbtxt",
]


@pytest.fixture(autouse=True)
def _no_aws_configuration_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a copy of the sample model repository that tests may break."""
    return Path(shutil.copytree(SAMPLES, tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def s3() -> Iterator[object]:
    """Yield a boto3 client on a moto with the bucket."""
    with mock_aws():
        client = boto3.client("s3", region_name="us-west-2")
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield client


@pytest.fixture
def store(s3: object) -> Store:
    """Return modelctl's store on that bucket, with the smallest parts that S3 allows."""
    return open_store(BUCKET, part_bytes=5 * 1024 * 1024)
