"""NVIDIA GPUs of EC2 instance types, as far as rules about nodes need them."""

from __future__ import annotations

from collections.abc import Mapping

GPUS: Mapping[str, Mapping[str, int]] = {
    "g4dn": {"12xlarge": 4, "metal": 8},
    "g5": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g6": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g6e": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "gr6": {},
    "p3": {"8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
    "p6-b200": {"48xlarge": 8},
}
"""Family -> GPUs of the sizes that have more than one (EC2's list of accelerated instances)."""


def family_of(instance_type: str) -> str:
    """The part before the dot: `g5` of `g5.xlarge`."""
    return instance_type.partition(".")[0]


def has_gpu(instance_type: str) -> bool:
    """Whether the type has an NVIDIA GPU."""
    return family_of(instance_type) in GPUS


def gpus_of(instance_type: str) -> int:
    """How many NVIDIA GPUs the type has; 0 without any."""
    family, _, size = instance_type.partition(".")
    return GPUS[family].get(size, 1) if family in GPUS else 0
