"""Sizes of a node group, the same for system nodes and GPU pools."""

from collections.abc import Iterator

from spec.settings.gpu import GpuPool
from spec.settings.nodes import SystemGroup
from spec.settings.problem import Problem


def sizes_are_ordered(group: SystemGroup | GpuPool, path: str) -> Iterator[Problem]:
    """min <= desired <= max, as EKS demands; said once, at the value that is out of order."""
    if group.min > group.max:
        yield Problem(f"{path}.min", f"{group.min} is more than max {group.max}; give min <= desired <= max")
    elif group.desired < group.min:
        yield Problem(f"{path}.desired", f"{group.desired} is less than min {group.min}; give {group.min} to {group.max}")
    elif group.desired > group.max:
        yield Problem(f"{path}.desired", f"{group.desired} is more than max {group.max}; give {group.min} to {group.max}")
