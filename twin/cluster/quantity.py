"""Kubernetes quantities (`500m`, `2Gi`, `1e3`) as exact numbers."""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([a-zA-Z]*)")


def parse(text: str) -> Decimal:
    """Return the number that a quantity represents. Raises ValueError for anything else."""
    found = _FORM.fullmatch(text)
    if not found or found[2] not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    return Decimal(found[1]) * _SUFFIXES[found[2]]
