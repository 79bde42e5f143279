"""Read the records (records.py) inside moto's own process, where an SSM request would wait for itself."""

from __future__ import annotations

import json
from typing import Any

from moto.ssm.models import ssm_backends


def text(account: str, region: str, name: str) -> str:
    """Return the parameter's raw text, "" if it does not exist."""
    versions = ssm_backends[account][region]._parameters.get(name)
    return str(versions[-1].value) if versions else ""


def get(account: str, region: str, name: str) -> dict[str, Any] | None:
    """Return one record, or None."""
    found = text(account, region, name)
    record: dict[str, Any] | None = json.loads(found) if found else None
    return record


def below(account: str, region: str, folder: str) -> dict[str, dict[str, Any]]:
    """Return all records below `folder`, keyed by the rest of the name."""
    names = [name for name in list(ssm_backends[account][region]._parameters) if name.startswith(f"{folder}/")]
    found = ((name, get(account, region, name)) for name in names)
    return {name.removeprefix(f"{folder}/"): record for name, record in found if record is not None}
