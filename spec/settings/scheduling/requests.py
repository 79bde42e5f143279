"""The requests of containers, from `resources` in Kubernetes notation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spec.pod_sets import Request
from spec.settings.fields import cpu_millis

_MIB: Mapping[str, float] = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024**2, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def requested(resources: Mapping[str, Any]) -> Request:
    """Return the requests in a container's `resources`. A limit without a request counts as the request."""
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Request(cpu_millis(str(asked.get("cpu", 0))), _mib(str(asked.get("memory", 0))))


def _mib(quantity: str) -> int:
    """Return a Kubernetes memory quantity in whole MiB, rounded up: `1Gi` -> 1024."""
    for suffix, factor in _MIB.items():
        if quantity.endswith(suffix):
            bytes_or_mib = float(quantity.removesuffix(suffix)) * factor
            return math.ceil(bytes_or_mib if suffix.endswith("i") else bytes_or_mib / 1024**2)
    return math.ceil(float(quantity) / 1024**2)
