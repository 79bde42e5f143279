"""Read Helm's release records: one Secret for each revision, in the release's namespace."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

DEPLOYED = "owner=helm,status=deployed"
"""The label selector of the releases that are currently installed."""


def values(secrets: Iterable[Mapping[str, Any]], chart: str) -> dict[str, Any] | None:
    """Return the values of the chart's Helm release, without the chart's defaults; None if there is no release."""
    for secret in secrets:
        release = _release(secret)
        if release.get("chart", {}).get("metadata", {}).get("name") == chart:
            return dict(release.get("config") or {})
    return None


def _release(secret: Mapping[str, Any]) -> dict[str, Any]:
    """Return Helm's record; empty if it cannot be read, because its validity is not checked here.

    https://github.com/helm/helm/blob/v3.19.0/pkg/storage/driver/util.go, `encodeRelease`.
    """
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        record: dict[str, Any] = json.loads(gzip.decompress(packed))
    except (KeyError, ValueError, OSError, EOFError, zlib.error, binascii.Error):
        return {}
    return record if isinstance(record, dict) else {}
