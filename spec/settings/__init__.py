"""The typed settings of a stack. `load_stack_file(path)` reads them and reports all problems at once."""

from spec.problem import Problem, SettingsError
from spec.settings.cluster import Cluster
from spec.settings.digest import serving_digest
from spec.settings.gpu import Gpu, GpuPool, Sharing
from spec.settings.model import Settings
from spec.settings.models import Models
from spec.settings.network import Network
from spec.settings.nodes import Nodes, SystemGroup
from spec.settings.release import Release
from spec.settings.serving import ModelServing, Priorities, RateLimiter, Sequence
from spec.settings.source import load, load_content, load_stack_file, read_config
from spec.settings.triton import Triton

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
    "load_content",
    "load_stack_file",
    "read_config",
    "serving_digest",
]
