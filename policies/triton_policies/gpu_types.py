"""The NVIDIA GPUs of EC2 instance types, as needed by the rules about nodes."""

from __future__ import annotations

import re
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
"""Family -> GPUs of the sizes with more than one (EC2's list of accelerated instances)."""
_LIKE_A_GPU = re.compile(r"(gr?|p)\d")
"""The pattern of AWS's names for GPU families. Families missing from the list, new or old, cannot bypass a rule."""
_MOST = 8
"""The assumed number of GPUs for a family that is not on the list."""


def family_of(instance_type: str) -> str:
    """Return the part before the dot: `g5` of `g5.xlarge`."""
    return instance_type.partition(".")[0]


def has_gpu(instance_type: str) -> bool:
    """Return whether the type has a GPU."""
    return _is_gpu_family(family_of(instance_type))


def gpus_of(instance_type: str) -> int:
    """Return the maximum number of GPUs of the type; 0 if it has none."""
    family, _, size = instance_type.partition(".")
    if family in GPUS:
        return GPUS[family].get(size, 1)
    return _MOST if _is_gpu_family(family) else 0


def _is_gpu_family(family: str) -> bool:
    return family in GPUS or _LIKE_A_GPU.match(family) is not None
