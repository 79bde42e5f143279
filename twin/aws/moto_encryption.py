"""Make moto return and enforce a bucket's blocked encryption types.

moto 5.2 stores `BlockedEncryptionTypes` of PutBucketEncryption, omits it from GetBucketEncryption, and accepts each upload.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/blocking-unblocking-s3-c-encryption-gpb.html
"""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import ensure_boolean
from moto.s3.exceptions import S3AccessDeniedError, ServerSideEncryptionConfigurationNotFoundError
from moto.s3.responses import S3Response

_CUSTOMER_KEY = "x-amz-server-side-encryption-customer-algorithm"
_put_object = S3Response.put_object


def install() -> None:
    """Patch the moto of this process."""
    S3Response.get_bucket_encryption = get_bucket_encryption  # type: ignore[method-assign,assignment]
    S3Response.put_object = put_object  # type: ignore[method-assign,assignment]


def get_bucket_encryption(response: S3Response) -> Any:
    """Return the bucket's rule with its blocked encryption types."""
    response.data["Action"] = "GetBucketEncryption"
    encryption = response.backend.get_bucket_encryption(response.bucket_name)
    if not encryption:
        raise ServerSideEncryptionConfigurationNotFoundError(bucket_name=response.bucket_name)
    rule = encryption["Rule"]
    shown = {
        "ApplyServerSideEncryptionByDefault": rule["ApplyServerSideEncryptionByDefault"],
        "BucketKeyEnabled": ensure_boolean(rule.get("BucketKeyEnabled")),
    }
    if blocked := _blocked(rule):
        shown["BlockedEncryptionTypes"] = {"EncryptionType": blocked}
    return response.serialized(ActionResult({"ServerSideEncryptionConfiguration": {"Rules": [shown]}}))


def put_object(response: S3Response) -> Any:
    """Store an object, but refuse a customer's key if the bucket blocks SSE-C."""
    if _CUSTOMER_KEY in response.headers:
        encryption = response.backend.get_bucket_encryption(response.bucket_name)
        if encryption and "SSE-C" in _blocked(encryption["Rule"]):
            raise S3AccessDeniedError
    return _put_object(response)


def _blocked(rule: dict[str, Any]) -> list[str]:
    types = (rule.get("BlockedEncryptionTypes") or {}).get("EncryptionType", [])
    return [types] if isinstance(types, str) else types
