"""Rules among the values of a stack file, each a small function, run independently of one another.

A check whose inputs are invalid is skipped, so that it neither hides nor repeats what has been said about them.
"""

from collections.abc import Iterator

from spec.settings.checks import (
    autoscaling,
    cluster,
    cost,
    environment,
    gateway,
    gpu_memory,
    model_access,
    monitoring,
    network,
    node_autoscaler,
    nodes,
    pools,
    production,
    serving,
    tracing,
    triton,
    versions,
    worker,
)
from spec.settings.checks.subject import Check, PoolCheck, PoolSubject, Subject
from spec.settings.problem import Problem
from spec.settings.section import Absent

__all__ = ["Subject", "problems_in", "warnings_about"]

_CHECKS: tuple[Check, ...] = (
    *environment.CHECKS,
    *network.CHECKS,
    *cluster.CHECKS,
    *nodes.CHECKS,
    *node_autoscaler.CHECKS,
    *pools.CHECKS,
    *triton.CHECKS,
    *serving.CHECKS,
    *gpu_memory.CHECKS,
    *versions.CHECKS,
    *model_access.CHECKS,
    *monitoring.CHECKS,
    *autoscaling.CHECKS,
    *gateway.CHECKS,
    *tracing.CHECKS,
    *worker.CHECKS,
    *cost.CHECKS,
    *production.CHECKS,
)
_POOL_CHECKS: tuple[PoolCheck, ...] = (*pools.POOL_CHECKS, *node_autoscaler.POOL_CHECKS)
_WARNINGS: tuple[Check, ...] = (
    *environment.WARNINGS,
    *network.WARNINGS,
    *cluster.WARNINGS,
    *triton.WARNINGS,
    *serving.WARNINGS,
    *monitoring.WARNINGS,
    *autoscaling.WARNINGS,
    *gateway.WARNINGS,
    *tracing.WARNINGS,
    *worker.WARNINGS,
)


def problems_in(subject: Subject) -> list[Problem]:
    """Everything that the relations among valid values violate."""
    problems = [problem for check in _CHECKS for problem in _until_absent(check(subject))]
    for pool in _pools(subject):
        for pool_check in _POOL_CHECKS:
            problems.extend(_until_absent(pool_check(pool)))
    return problems


def warnings_about(subject: Subject) -> list[Problem]:
    """What is valid and should change soon."""
    return [problem for check in _WARNINGS for problem in _until_absent(check(subject))]


def _pools(subject: Subject) -> list[PoolSubject]:
    try:
        pools_ = subject.document.gpu.pools
    except Absent:
        return []
    return [PoolSubject(pool, f"gpu.pools[{index}]", subject.document) for index, pool in enumerate(pools_)]


def _until_absent(found: Iterator[Problem]) -> Iterator[Problem]:
    try:
        yield from found
    except Absent:
        return
