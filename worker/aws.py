"""AWS from asyncio: boto3's calls in threads of their own.

boto3 is AWS's own client, its clients are made to be shared by threads, and this repository has it anyway. aiobotocore would
bring a second one, tied to single versions of botocore, to save threads that wait: there are two calls a message.
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
"""Beside one for each request at a time: the poll, and messages that are extended, deleted, failed or given back."""
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
"""Codes of refusals that say nothing about one object. Throttling: https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html"""


class Service:
    """The client of one service, and threads for its calls. Raises InvalidSettings where the environment makes none."""

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
        """Return the answer of one operation of the client. Raises AWS_ERRORS."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(operation, **parameters))

    def close(self) -> None:
        """Waits for the calls that are under way."""
        self._threads.shutdown(wait=True)


class Aws:
    """SQS and S3, for so many requests at a time.

    Each with threads of its own: while the bucket hangs, messages in hand have to be extended all the same.
    """

    def __init__(self, concurrency: int) -> None:
        self.sqs = Service("sqs", concurrency + _OTHER_CALLS)
        self.s3 = Service("s3", concurrency + _OTHER_CALLS)

    def close(self) -> None:
        """Waits for the calls that are under way."""
        self.sqs.close()
        self.s3.close()


def is_final(error: ClientError) -> bool:
    """Return whether AWS would give the same answer to the same request later: it says so of the request or its object.

    Not final are failures of AWS itself, throttling, and whatever is wrong with the worker's credentials, clock or bucket:
    these concern every message alike, and pass.
    """
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    return 300 <= status < 500 and status not in (401, 408, 429) and code(error) not in _PASSING


def code(error: Exception) -> str:
    """AWS's name of a refusal; the kind of exception where there is none."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__
