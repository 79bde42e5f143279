"""Blocked encryption types of a bucket in moto."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.s3.responses import S3Response

from twin.aws import moto_encryption

RULE = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}, "BucketKeyEnabled": True}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(S3Response, "get_bucket_encryption", moto_encryption.get_bucket_encryption)
    monkeypatch.setattr(S3Response, "put_object", moto_encryption.put_object)
    with mock_aws():
        client = boto3.client("s3", "us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
        client.create_bucket(Bucket="models")
        yield client


def configure(s3: Any, **rule: Any) -> None:
    s3.put_bucket_encryption(Bucket="models", ServerSideEncryptionConfiguration={"Rules": [{**RULE, **rule}]})


def upload(s3: Any) -> None:
    s3.put_object(Bucket="models", Key="model", Body=b"x", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)


def rules(s3: Any) -> Any:
    return s3.get_bucket_encryption(Bucket="models")["ServerSideEncryptionConfiguration"]["Rules"]


def test_blocked_types_are_returned_and_uploads_with_a_clients_key_are_refused(s3: Any) -> None:
    configure(s3, BlockedEncryptionTypes={"EncryptionType": ["SSE-C"]})
    assert rules(s3) == [{**RULE, "BlockedEncryptionTypes": {"EncryptionType": ["SSE-C"]}}]
    with pytest.raises(ClientError, match="AccessDenied"):
        upload(s3)
    s3.put_object(Bucket="models", Key="model", Body=b"x")


def test_a_bucket_that_blocks_nothing_takes_a_clients_key(s3: Any) -> None:
    configure(s3)
    assert rules(s3) == [RULE]
    upload(s3)


def test_a_bucket_without_a_configuration_has_none(s3: Any) -> None:
    s3.delete_bucket_encryption(Bucket="models")
    with pytest.raises(ClientError, match="ServerSideEncryptionConfigurationNotFoundError"):
        rules(s3)
