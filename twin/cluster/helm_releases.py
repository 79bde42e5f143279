"""Read what Helm keeps of its releases: one Secret of each revision, in the release's namespace."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

DEPLOYED = "owner=helm,status=deployed"
"""The label selector of those that are installed now."""


def values(secrets: Iterable[Mapping[str, Any]], chart: str) -> dict[str, Any] | None:
    """Return the values with which somebody has installed the chart by Helm, over the chart's own; None where nobody has."""
    for secret in secrets:
        release = _release(secret)
        if release.get("chart", {}).get("metadata", {}).get("name") == chart:
            return dict(release.get("config") or {})
    return None


def _release(secret: Mapping[str, Any]) -> dict[str, Any]:
    """Return Helm's own record; empty for one that cannot be read, which is not ours to complain about.

    https://github.com/helm/helm/blob/v3.19.0/pkg/storage/driver/util.go, `encodeRelease`.
    """
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        record: dict[str, Any] = json.loads(gzip.decompress(packed))
    except (KeyError, ValueError, OSError, EOFError, zlib.error, binascii.Error):
        return {}
    return record if isinstance(record, dict) else {}
