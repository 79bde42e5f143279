"""CPU and memory that containers ask for (`resources.requests`), by which the scheduler gives pods their nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spec.settings.fields import cpu_millis

_MIB: Mapping[str, float] = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024**2, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Request:
    """Thousandths of a vCPU, and MiB."""

    millis: int = 0
    mib: int = 0

    def __add__(self, other: Request) -> Request:
        return Request(self.millis + other.millis, self.mib + other.mib)

    def __mul__(self, count: int) -> Request:
        return Request(self.millis * count, self.mib * count)

    def __str__(self) -> str:
        return f"{self.millis}m CPU and {self.mib} MiB"


NOTHING = Request()


def requested(resources: Mapping[str, Any]) -> Request:
    """Return what the `resources` of a container ask for; where it has limits alone, those are its requests."""
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Request(cpu_millis(str(asked.get("cpu", 0))), _mib(str(asked.get("memory", 0))))


def _mib(quantity: str) -> int:
    """Return a Kubernetes quantity of memory in whole MiB, rounded up: `1Gi` -> 1024."""
    for suffix, factor in _MIB.items():
        if quantity.endswith(suffix):
            bytes_or_mib = float(quantity.removesuffix(suffix)) * factor
            return math.ceil(bytes_or_mib if suffix.endswith("i") else bytes_or_mib / 1024**2)
    return math.ceil(float(quantity) / 1024**2)
