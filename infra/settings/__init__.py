"""Typed stack config. `from_pulumi()` in the program, `load_stack_file(path)` elsewhere; both report everything at once."""

from infra.settings.model import (
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
from infra.settings.problem import Problem, SettingsError
from infra.settings.source import from_pulumi, load, load_stack_file

__all__ = [
    "Cluster",
    "Gpu",
    "GpuPool",
    "Models",
    "Network",
    "Nodes",
    "Problem",
    "Release",
    "Settings",
    "SettingsError",
    "Sharing",
    "SystemGroup",
    "Triton",
    "from_pulumi",
    "load",
    "load_stack_file",
]
