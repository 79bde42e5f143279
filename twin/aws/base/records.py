"""State of the fake account that moto has no place for.

Provider processes live for one engine run, so it cannot be in memory. It is kept in the account itself, as JSON
parameters of moto's SSM parameter store below ``/twin/``; the wipe or loss of moto takes it along.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

from twin.aws.base.clients import Clients
from twin.aws.base.lookup import gone_is_fine, or_none

_PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")


def path(*parts: str) -> str:
    """Return a parameter name; parts that SSM would refuse (ARNs) are replaced by a digest of themselves."""
    safe = (part if _PLAIN.fullmatch(part) else hashlib.sha256(part.encode()).hexdigest()[:24] for part in parts)
    return "/twin/" + "/".join(safe)


def put(clients: Clients, name: str, record: dict[str, Any]) -> None:
    """Write or overwrite one record."""
    clients("ssm").put_parameter(
        Name=name, Value=json.dumps(record, sort_keys=True), Type="String", Tier="Advanced", Overwrite=True
    )


def get(clients: Clients, name: str) -> dict[str, Any] | None:
    """Return one record, or None."""
    found = text(clients, name)
    record: dict[str, Any] | None = json.loads(found) if found else None
    return record


def text(clients: Clients, name: str) -> str:
    """Return a parameter as somebody wrote it; "" where there is none."""
    answer = or_none(clients("ssm").get_parameter, Name=name)
    return str(answer["Parameter"]["Value"]) if answer is not None else ""


def age(clients: Clients, name: str) -> float:
    """Return the seconds since a record was written, which is there."""
    written = clients("ssm").get_parameter(Name=name)["Parameter"]["LastModifiedDate"]
    return (datetime.now(UTC) - written).total_seconds()


def below(clients: Clients, name: str) -> dict[str, dict[str, Any]]:
    """Return all records whose names lie below ``name``, by name."""
    pages = clients("ssm").get_paginator("get_parameters_by_path").paginate(Path=name, Recursive=True)
    return {item["Name"]: json.loads(item["Value"]) for page in pages for item in page["Parameters"]}


def delete(clients: Clients, name: str) -> None:
    """Remove one record; one that is gone is fine."""
    with gone_is_fine():
        clients("ssm").delete_parameter(Name=name)
