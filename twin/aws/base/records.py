"""State of the fake account that moto cannot hold.

Provider processes live for one engine run, so the state cannot be in memory. It is kept in the account itself, as JSON
parameters of moto's SSM parameter store below ``/twin/``. It is lost when moto is wiped or lost.
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
    """Return a parameter name; a digest replaces each part that SSM would refuse (ARNs)."""
    safe = (part if _PLAIN.fullmatch(part) else hashlib.sha256(part.encode()).hexdigest()[:24] for part in parts)
    return "/twin/" + "/".join(safe)


def put(clients: Clients, name: str, record: dict[str, Any]) -> None:
    """Create or overwrite one record."""
    clients("ssm").put_parameter(
        Name=name, Value=json.dumps(record, sort_keys=True), Type="String", Tier="Advanced", Overwrite=True
    )


def get(clients: Clients, name: str) -> dict[str, Any] | None:
    """Return one record, or None."""
    found = text(clients, name)
    record: dict[str, Any] | None = json.loads(found) if found else None
    return record


def text(clients: Clients, name: str) -> str:
    """Return the parameter's raw text, "" if it does not exist."""
    answer = or_none(clients("ssm").get_parameter, Name=name)
    return str(answer["Parameter"]["Value"]) if answer is not None else ""


def age(clients: Clients, name: str) -> float:
    """Return the seconds since an existing record was written."""
    written = clients("ssm").get_parameter(Name=name)["Parameter"]["LastModifiedDate"]
    return (datetime.now(UTC) - written).total_seconds()


def below(clients: Clients, name: str) -> dict[str, dict[str, Any]]:
    """Return all records below ``name``, keyed by name."""
    pages = clients("ssm").get_paginator("get_parameters_by_path").paginate(Path=name, Recursive=True)
    return {item["Name"]: json.loads(item["Value"]) for page in pages for item in page["Parameters"]}


def delete(clients: Clients, name: str) -> None:
    """Delete one record; an absent record is no error."""
    with gone_is_fine():
        clients("ssm").delete_parameter(Name=name)
