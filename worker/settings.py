"""Settings of a worker: the variables WORKER_* of its environment.

AWS is reached as every AWS SDK is told to: AWS_DEFAULT_REGION, the role of the service account, AWS_ENDPOINT_URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

_PREFIX = "WORKER_"
_LONGEST_HOLD_SECONDS = 11 * 3600


class InvalidSettings(Exception):
    """The environment lacks variables or holds wrong ones; the text names each of them, a line each."""


class WorkerSettings(BaseModel):
    """One worker. Seconds everywhere.

    `triton_url` is a gRPC name: `dns:///triton-headless.triton:8001`, or `ipv4:a:8001,b:8001`. `concurrency` is the most
    requests that the worker has at Triton at a time; it falls by itself while Triton refuses. `visibility_seconds` is the
    queue's own timeout: a message in hand is extended by that much each half of it. `request_seconds` limits one inference,
    its time in Triton's queue included. `grace_seconds` is the time from SIGTERM to the last message given back; the poll
    that is under way has to end within it. `patience_seconds` is how long a message is kept while Triton or S3 is away,
    before that counts as one of its attempts. `retry_seconds` is the wait after its first failed attempt, doubled each time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue_url: Annotated[str, Field(pattern=r"^https?://")]
    bucket: Annotated[str, Field(min_length=3)]
    triton_url: Annotated[str, Field(min_length=1)]
    concurrency: Annotated[int, Field(ge=1, le=1000)]
    visibility_seconds: Annotated[int, Field(ge=2, le=43_200)]
    poll_seconds: Annotated[int, Field(ge=1, le=20)] = 20
    request_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    grace_seconds: Annotated[float, Field(gt=0, le=3600)] = 90.0
    # SQS takes a message away 12 hours after it was received, whatever its visibility is changed to.
    patience_seconds: Annotated[float, Field(gt=0, le=_LONGEST_HOLD_SECONDS)] = 1800.0
    retry_seconds: Annotated[int, Field(ge=0, le=900)] = 10
    listen: Annotated[str, Field(pattern=r"^[^:]+:\d{1,5}$")] = "127.0.0.1:8080"
    reply_queues: frozenset[str] = frozenset()

    @field_validator("reply_queues", mode="before")
    @classmethod
    def _separated_by_commas(cls, value: object) -> object:
        return [url for url in value.split(",") if url] if isinstance(value, str) else value

    @field_validator("grace_seconds")
    @classmethod
    def _ends_after_its_poll(cls, value: float, given: ValidationInfo) -> float:
        poll = given.data.get("poll_seconds", 0)
        if value <= poll:
            raise ValueError(f"{value:g} s are over before the poll of {poll} s that is under way; give more")
        return value


def from_environment(environment: Mapping[str, str]) -> WorkerSettings:
    """The settings in WORKER_* variables. Raises InvalidSettings with everything that is wrong with them."""
    given = {name.removeprefix(_PREFIX).lower(): value for name, value in environment.items() if name.startswith(_PREFIX)}
    try:
        return WorkerSettings.model_validate(given)
    except ValidationError as error:
        lines = [f"{_PREFIX}{str(wrong['loc'][0]).upper()}: {wrong['msg']}" for wrong in error.errors()]
        raise InvalidSettings("\n".join(lines)) from None
