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
from botocore.exceptions import BotoCoreError, ClientError

T = TypeVar("T")
AWS_ERRORS = (ClientError, BotoCoreError)
_LONG_POLL_SECONDS = 20
_OTHER_CALLS = 8


class Aws:
    """One SQS and one S3 client and the threads for their calls: as many as requests at a time, and some more."""

    def __init__(self, concurrency: int) -> None:
        threads = concurrency + _OTHER_CALLS
        config = Config(
            max_pool_connections=threads,
            connect_timeout=5,
            read_timeout=_LONG_POLL_SECONDS + 10,
            retries={"mode": "standard", "total_max_attempts": 4},
        )
        self.sqs: Any = boto3.client("sqs", config=config)
        self.s3: Any = boto3.client("s3", config=config)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="aws")

    async def call(self, operation: Callable[..., T], **parameters: Any) -> T:
        """The answer of one operation of a client. Raises AWS_ERRORS."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(operation, **parameters))

    def close(self) -> None:
        """Waits for the calls that are under way."""
        self._threads.shutdown(wait=True)


def code(error: Exception) -> str:
    """AWS's name of a refusal; the kind of exception where there is none."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__
