"""The cases of all policies."""

from tests.policies.case import Case
from tests.policies.cases import (
    cluster,
    encryption,
    governance,
    gpu_nodes,
    identity,
    network,
    nodes,
    platform,
    queues,
    serving,
    storage,
    workloads,
)

CASES: tuple[Case, ...] = (
    *cluster.CASES,
    *nodes.CASES,
    *gpu_nodes.CASES,
    *network.CASES,
    *identity.CASES,
    *encryption.CASES,
    *storage.CASES,
    *queues.CASES,
    *workloads.CASES,
    *serving.CASES,
    *platform.CASES,
    *governance.CASES,
)
