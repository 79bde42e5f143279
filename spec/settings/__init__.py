"""Typed stack config. `from_pulumi()` in the program, `load_stack_file(path)` elsewhere; both report everything at once."""

from spec.settings.digest import serving_digest
from spec.settings.model import (
    Cluster,
    Gpu,
    GpuPool,
    Models,
    Network,
    Nodes,
    Release,
    Settings,
    Sharing,
    SystemGroup,
    Triton,
)
from spec.settings.problem import Problem, SettingsError
from spec.settings.serving import ModelServing, Priorities, RateLimiter, Sequence
from spec.settings.source import from_pulumi, load, load_stack_file

__all__ = [
    "Cluster",
    "Gpu",
    "GpuPool",
    "ModelServing",
    "Models",
    "Network",
    "Nodes",
    "Priorities",
    "Problem",
    "RateLimiter",
    "Release",
    "Sequence",
    "Settings",
    "SettingsError",
    "Sharing",
    "SystemGroup",
    "Triton",
    "from_pulumi",
    "load",
    "load_stack_file",
    "serving_digest",
]
