"""Instance types that a stack file describes, as the catalogue would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spec.catalog import InstanceType

if TYPE_CHECKING:  # the settings themselves ask for described types
    from spec.settings.instance_types import InstanceFacts


def described(name: str, facts: InstanceFacts) -> InstanceType:
    """Return the type that is described. Raises Absent where a fact of it is invalid."""
    return InstanceType(
        name=name,
        gpu_name=facts.gpu_name,
        gpus=facts.gpus,
        gpu_memory_gib=facts.gpu_memory_gib or 0,
        compute_capability=facts.compute_capability,
        vcpus=facts.vcpus,
        memory_gib=facts.memory_gib,
        nvme_gib=facts.nvme_gib,
        efa_interfaces=facts.efa_interfaces,
        architecture=facts.architecture,
        pods_limit=facts.max_pods,
    )
