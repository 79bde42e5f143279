"""Read the settings of a worker from the environment variables WORKER_*.

AWS is configured as for every AWS SDK: AWS_DEFAULT_REGION, the role of the service account, AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from worker.message import ModelName, once

_PREFIX = "WORKER_"
_LONGEST_HOLD_SECONDS = 11 * 3600
_LARGEST_PORT = 2**16 - 1
_URL = r"^https?://[^\s/@?#\x00-\x1f\x7f]+(/[^\s/?#\x00-\x1f\x7f]+)+$"
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_NUMBER = re.compile(r"(?!0[0-9])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Unambiguous numbers; pydantic also accepts 1_0, 010, 5.0 and surrounding blanks."""
_NO_BUCKET = re.compile(r"\.[.-]|-\.|^[0-9]+(?:\.[0-9]+){3}$")
"""Patterns that no bucket name has: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DNS = re.compile(r"dns://[^/]*/[^/:]+:[0-9]+")
"""The only scheme with slashes for an address and a port: https://github.com/grpc/grpc/blob/master/doc/naming.md."""


class InvalidSettings(Exception):
    """The environment lacks variables or has wrong ones; the text names each, a line each."""


class WorkerSettings(BaseModel):
    """The settings of one worker. Times are in seconds.

    `triton_url` is a gRPC name: `dns:///triton-headless.triton:8001`, or `ipv4:a:8001,b:8001`. `triton_fleets` has other
    names by model; the first is called, and the next if that one does not have the model. `concurrency` is the maximum of
    concurrent requests to Triton; it falls by itself while Triton refuses. `input_mib` limits the objects of the bucket in
    memory. `visibility_seconds` is the queue's own timeout; a message in flight is extended by that much every half of it.
    `request_seconds` limits one inference, including its time in Triton's queue. `grace_seconds` is the time from SIGTERM to
    the return of the last message; a running poll has to end within it. `patience_seconds` is how long a message is kept
    while Triton or S3 is down, before this counts as an attempt. `retry_seconds` is the wait after the first failed attempt,
    doubled each time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue_url: Annotated[str, Field(pattern=_URL, description="the queue's URL, like https://sqs.<region>.amazonaws.com/…")]
    bucket: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="the name of the requests' bucket")
    ]
    triton_url: Annotated[
        str, Field(min_length=1, description="a gRPC name with a port, like dns:///triton-headless.triton:8001")
    ]
    triton_fleets: dict[ModelName, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description='JSON of models and gRPC names, like {"classify": ["dns:///triton-g5-headless.triton:8001"]}',
    )
    concurrency: Annotated[int, Field(ge=1, le=1000, description="a whole number from 1 to 1000")]
    input_mib: Annotated[int, Field(ge=1, le=65_536, description="a whole number of MiB from 1 to 65536")]
    visibility_seconds: Annotated[int, Field(ge=2, le=43_200, description="whole seconds from 2 to 43200")]
    poll_seconds: Annotated[int, Field(ge=1, le=20, description="whole seconds from 1 to 20")] = 20
    request_seconds: Annotated[float, Field(gt=0, le=3600, description="seconds, more than 0 and at most 3600")] = 60.0
    grace_seconds: Annotated[float, Field(gt=0, le=3600, description="seconds, more than 0 and at most 3600")] = 90.0
    # SQS returns a message 12 hours after its receipt, whatever its visibility timeout.
    patience_seconds: Annotated[
        float, Field(gt=0, le=_LONGEST_HOLD_SECONDS, description="seconds, more than 0 and at most 39600")
    ] = 1800.0
    retry_seconds: Annotated[int, Field(ge=0, le=900, description="whole seconds from 0 to 900")] = 10
    listen: Annotated[
        str,
        Field(
            pattern=r"^(?:[^:\s\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
            description="an address and a port, like 127.0.0.1:8080 or [::1]:8080",
        ),
    ] = "127.0.0.1:8080"
    reply_queues: Annotated[
        frozenset[Annotated[str, Field(pattern=_URL)]], Field(description="URLs of queues, separated by commas")
    ] = frozenset()

    @field_validator("listen", "triton_url")
    @classmethod
    def _has_a_port(cls, value: str, given: ValidationInfo) -> str:
        return _checked_address(value, least=0 if given.field_name == "listen" else 1)

    @field_validator("triton_fleets", mode="before")
    @classmethod
    def _is_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value, object_pairs_hook=once)
        except json.JSONDecodeError:
            raise ValueError(f"{value} is no JSON") from None
        except RecursionError:
            raise ValueError("it is nested too deep") from None

    @field_validator("triton_fleets")
    @classmethod
    def _have_ports(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for address in (address for addresses in value.values() for address in addresses):
            _checked_address(address, least=1)
        return value

    @field_validator("reply_queues", mode="before")
    @classmethod
    def _separated_by_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        urls = [url.strip(" ") for url in value.split(",") if url.strip(" ")]
        if value and not urls:
            raise ValueError(f"{value} names no queue")
        return urls

    @field_validator("reply_queues")
    @classmethod
    def _leads_elsewhere(cls, value: frozenset[str], given: ValidationInfo) -> frozenset[str]:
        if given.data.get("queue_url") in value:
            raise ValueError(f"{given.data['queue_url']} is the queue of the requests, where an answer would be one")
        return value

    @field_validator("bucket")
    @classmethod
    def _is_a_buckets_name(cls, value: str) -> str:
        if _NO_BUCKET.search(value):
            raise ValueError(f"{value} is wrong")
        return value

    @field_validator("concurrency", "input_mib", "visibility_seconds", "poll_seconds", "retry_seconds", mode="before")
    @classmethod
    def _is_a_whole_number(cls, value: object) -> object:
        if isinstance(value, str) and value.strip() and not _WHOLE.fullmatch(value):
            raise ValueError(f"{value} is wrong")
        return value

    @field_validator("request_seconds", "grace_seconds", "patience_seconds", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        if isinstance(value, str) and value.strip() and not _NUMBER.fullmatch(value):
            raise ValueError(f"{value} is wrong")
        return value

    @field_validator("grace_seconds")
    @classmethod
    def _ends_after_its_poll(cls, value: float, given: ValidationInfo) -> float:
        poll = given.data.get("poll_seconds", 0)
        if value <= poll:
            raise ValueError(f"{value:g} s are over before the poll of {poll} s that is under way")
        return value


def _checked_address(value: str, *, least: int) -> str:
    """Return an address with a port of `least` or more. Raises ValueError."""
    host, _, port = value.rpartition(":")
    named = _SCHEME.match(value) is None or _DNS.fullmatch(value) is not None or not re.fullmatch("[0-9]+", port)
    if not host or not named or host.startswith(("http:", "https:")) or " " in value or not value.isprintable():
        raise ValueError(f"{value!a} is no such address" if not value.isprintable() else f"{value} is no such address")
    if not re.fullmatch("[0-9]{1,5}", port) or not least <= int(port) <= _LARGEST_PORT:
        raise ValueError(f"{port or 'nothing'} is no port; ports are {least} to {_LARGEST_PORT}")
    return value


def from_environment(environment: Mapping[str, str]) -> WorkerSettings:
    """Return the settings in WORKER_* variables. Raises InvalidSettings with all their mistakes."""
    names = [name for name in environment if name.startswith(_PREFIX)]
    wrong = [f"{name}: is no setting of the worker; write {name.upper()}" for name in names if name != name.upper()]
    given = {name.removeprefix(_PREFIX).lower(): environment[name] for name in names if name == name.upper()}
    try:
        settings = WorkerSettings.model_validate(given)
    except ValidationError as error:
        raise InvalidSettings("\n".join([*(_sentence(dict(one)) for one in error.errors()), *wrong])) from None
    if wrong:
        raise InvalidSettings("\n".join(wrong))
    return settings


def _sentence(wrong: dict[str, Any]) -> str:
    name = str(wrong["loc"][0])
    if wrong["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, WorkerSettings.model_fields, n=1)
        hint = f"did you mean {_PREFIX}{close[0].upper()}?" if close else "leave it out"
        return f"{_PREFIX}{name.upper()}: is no setting of the worker; {hint}"
    right = WorkerSettings.model_fields[name].description
    if wrong["type"] == "missing":
        return f"{_PREFIX}{name.upper()}: is missing; give {right}"
    if not str(wrong["input"]).strip():
        return f"{_PREFIX}{name.upper()}: is blank; give {right}"
    problem = wrong["msg"].removeprefix("Value error, ") if wrong["type"] == "value_error" else f"{wrong['input']} is wrong"
    return f"{_PREFIX}{name.upper()}: {problem}; give {right}"
