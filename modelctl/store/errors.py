"""Explain boto3's exceptions in sentences: the problem, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from boto3.exceptions import S3UploadFailedError
from botocore import exceptions as aws

from console import aws_errors
from console.aws_errors import CREDENTIALS
from spec.failure import NOT_TRIED, Failure

_ACTIONS = {
    "HeadObject": "s3:GetObject",
    "GetObject": "s3:GetObject",
    "ListObjectsV2": "s3:ListBucket",
    "PutObject": "s3:PutObject",
    "CopyObject": "s3:PutObject",
    "UploadPartCopy": "s3:PutObject",
    "DeleteObjects": "s3:DeleteObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "GetObjectTagging": "s3:GetObjectTagging",
    "PutObjectTagging": "s3:PutObjectTagging",
    "DeleteObjectTagging": "s3:DeleteObjectTagging",
}
_WRONG_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthorizationHeaderMalformed"}


class StoreError(Failure):
    """The bucket cannot be used; the text is one sentence."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Place:
    """A bucket and its endpoint; `endpoint_url` None is AWS."""

    bucket: str
    endpoint_url: str | None

    def __str__(self) -> str:
        return f"s3://{self.bucket}" + (f" at {self.endpoint_url}" if self.endpoint_url else "")


@contextmanager
def sentences(place: Place) -> Iterator[None]:
    """Turn all boto3 errors inside the block into StoreError."""
    try:
        yield
    except S3UploadFailedError as error:
        cause = error.__context__
        raise StoreError(explain(cause if isinstance(cause, Exception) else error, place)) from error
    except (aws.ClientError, aws.BotoCoreError) as error:
        raise StoreError(explain(error, place)) from error


def explain(error: Exception, place: Place) -> str:
    """Return one sentence for a boto3 exception about `place`."""
    if isinstance(error, aws.ClientError):
        return _explain_answer(error, place)
    if isinstance(error, aws_errors.CONFIGURATION + aws_errors.SOURCES):
        return str(aws_errors.explain(error))
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError):
        return f"no AWS credentials to reach {place}: {CREDENTIALS}"
    if isinstance(error, aws.NoRegionError):
        return "no AWS region: set AWS_REGION to the bucket's region"
    if isinstance(error, aws.ParamValidationError) and "bucket" in str(error).lower():
        return f"{place.bucket!r} is no bucket name: 3 to 63 lower-case letters, digits, dots and hyphens"
    if isinstance(error, aws.EndpointConnectionError | aws.ConnectTimeoutError | aws.ProxyConnectionError):
        return f"cannot reach {place}: nothing answers at {_endpoint(error, place)}; check the address and the network"
    if isinstance(error, aws.SSLError):
        return f"cannot reach {place}: TLS failed ({error}); check the endpoint's scheme and certificate"
    if isinstance(error, aws.ConnectionClosedError | aws.ReadTimeoutError | aws.HTTPClientError):
        return f"the connection to {place} broke: {error}; run the same command again, it continues"
    return f"{place}: {error}"


def _endpoint(error: Exception, place: Place) -> str:
    kwargs = getattr(error, "kwargs", {})
    return str(place.endpoint_url or kwargs.get("endpoint_url") or "AWS")


def _explain_answer(error: aws.ClientError, place: Place) -> str:
    if said := aws_errors.explain(error):
        return said
    details = error.response.get("Error", {})
    code = str(details.get("Code", ""))
    operation = error.operation_name
    if code == "NoSuchBucket" or (code == "404" and operation == "HeadBucket"):
        return f"there is no bucket {place}; `pulumi stack output` names the stack's models bucket"
    if code in {"AccessDenied", "403", "AllAccessDisabled"}:
        action = _ACTIONS.get(operation, operation)
        key = " (and to kms:GenerateDataKey and kms:Decrypt on the bucket's key)" if action == "s3:PutObject" else ""
        return f"access to {place} is denied: these credentials need {action}{key}"
    if code in _WRONG_KEYS:
        return f"the AWS credentials are not accepted ({code}): {CREDENTIALS}"
    if code in {"PermanentRedirect", "301", "IllegalLocationConstraintException"}:
        region = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        where = f"region {region}" if region else "another region"
        return f"bucket {place.bucket} lies in {where}: set AWS_REGION to it"
    if code in {"ConditionalRequestConflict", "409"}:
        return f"another command writes the same object of {place} at this moment: wait until it is done, and run this again"
    if code == "InvalidBucketName":
        return f"{place.bucket!r} is no bucket name: 3 to 63 lower-case letters, digits, dots and hyphens"
    return f"{place} answered {operation} with {code}: {details.get('Message', 'no message')}"
