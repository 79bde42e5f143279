"""Call AWS from asyncio: boto3 in separate threads.

boto3 is AWS's own client, its clients are thread-safe, and this repository has it anyway. In contrast, aiobotocore would add
a second client, tied to single versions of botocore. It would only save waiting threads: there are two calls per message.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from worker.settings import InvalidSettings

T = TypeVar("T")
AWS_ERRORS = (ClientError, BotoCoreError)
_LONG_POLL_SECONDS = 20
_OTHER_CALLS = 16
"""Threads in addition to one per request: for the poll, and to extend, delete, fail or return messages."""
_PASSING = frozenset(
    {
        *(
            "BandwidthLimitExceeded",
            "LimitExceededException",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceededException",
        ),
        *(
            "RequestLimitExceeded",
            "RequestThrottled",
            "RequestThrottledException",
            "SlowDown",
            "Throttling",
            "ThrottledException",
        ),
        *("ThrottlingException", "TooManyRequestsException", "TransactionInProgressException", "EC2ThrottledException"),
        *(
            "KMS.ThrottlingException",
            "KMS.KMSInternalException",
            "KMS.KeyUnavailableException",
            "KMS.DependencyTimeoutException",
        ),
        *(
            "RequestTimeout",
            "RequestTimeoutException",
            "InternalError",
            "ServiceUnavailable",
            "OperationAborted",
            "Busy",
            "503",
        ),
        *("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired", "RequestTimeTooSkewed"),
        *("InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken", "SignatureDoesNotMatch", "NotSignedUp"),
        *("NoSuchBucket", "AccountProblem", "UnauthorizedAccess", "Unknown"),
    }
)
"""Error codes that say nothing about one object. Throttling:
https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html"""


class Service:
    """The client of one service, and threads for its calls. Raises InvalidSettings if the environment does not
    configure it."""

    def __init__(self, name: str, threads: int) -> None:
        config = Config(
            max_pool_connections=threads,
            connect_timeout=5,
            read_timeout=_LONG_POLL_SECONDS + 10,
            retries={"mode": "standard", "total_max_attempts": 4},
        )
        try:
            self.client: Any = boto3.client(name, config=config)
        except NoRegionError:
            raise InvalidSettings("AWS_DEFAULT_REGION: is missing; give the region of the queue and the bucket") from None
        except (BotoCoreError, ValueError) as error:
            said = str(error).rstrip(".")
            raise InvalidSettings(f"AWS: {said}; look at AWS_ENDPOINT_URL, AWS_DEFAULT_REGION and AWS_PROFILE") from None
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def call(self, operation: Callable[..., T], **parameters: Any) -> T:
        """Return the response of one operation of the client. Raises AWS_ERRORS."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(operation, **parameters))

    def close(self) -> None:
        """Wait for the running calls."""
        self._threads.shutdown(wait=True)


class Aws:
    """SQS and S3, sized for `concurrency` requests at a time.

    Each has its own threads, so messages in flight are extended even while the bucket hangs.
    """

    def __init__(self, concurrency: int) -> None:
        self.sqs = Service("sqs", concurrency + _OTHER_CALLS)
        self.s3 = Service("s3", concurrency + _OTHER_CALLS)

    def close(self) -> None:
        """Wait for the running calls."""
        self.sqs.close()
        self.s3.close()


def is_final(error: ClientError) -> bool:
    """Return whether AWS would repeat the error for the same request later. Then the request or its object is wrong.

    Failures of AWS itself, throttling, and errors in the worker's credentials, clock or bucket are not final: they concern
    all messages alike, and pass.
    """
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    return 300 <= status < 500 and status not in (401, 408, 429) and code(error) not in _PASSING


def code(error: Exception) -> str:
    """Return AWS's error code, or the exception's class name without one."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__
