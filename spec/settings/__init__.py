"""The typed settings of a stack: `load_stack_file(path)` reads them, and reports everything that is wrong at once."""

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
from spec.settings.source import load, load_stack_file, read_config

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
    "load",
    "load_stack_file",
    "read_config",
    "serving_digest",
]
