"""The input of a rule between sections."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import wraps

from spec.catalog import InstanceType
from spec.problem import Problem
from spec.settings.gpu import GpuPool, pool_name
from spec.settings.model import Document
from spec.settings.nodes import CPU_POOL_NAME, CpuPool, NodeGroup
from spec.settings.section import Absent
from spec.stack_names import environments_in_name


@dataclass(frozen=True)
class Subject:
    """A stack file (without its invalid values), the stack's name and the date of the run."""

    document: Document
    stack: str
    today: date

    @property
    def environment(self) -> str:
        """Return the environment from the file. If it is missing or misspelt there, return it from the stack's name.

        The fallback keeps the environment's rules active.
        """
        said: str | None = self.document.__dict__.get("environment")
        return said or next(iter(environments_in_name(self.stack)), "")


@dataclass(frozen=True)
class PoolSubject:
    """One GPU pool of a stack file and its path."""

    pool: GpuPool
    path: str
    document: Document


def of_each_pool(check: Callable[[PoolSubject], Iterator[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    """Turn a rule about one pool into a rule about all. A missing value of one pool does not stop the others."""

    @wraps(check)
    def run(subject: Subject) -> Iterator[Problem]:
        for index, pool in enumerate(subject.document.gpu.pools):
            try:
                yield from check(PoolSubject(pool, f"gpu.pools[{index}]", subject.document))
            except Absent:
                continue

    return run


def of_each_fleet(check: Callable[[Subject], Iterator[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    """Turn a rule about Triton into a rule about each fleet. A missing value of one fleet does not stop the others."""

    @wraps(check)
    def run(subject: Subject) -> Iterator[Problem]:
        told: list[Problem] = []
        for fleet in subject.document.each_fleet:
            try:
                for found in check(replace(subject, document=fleet.stack)):
                    # Problems that a candidate shares with the release are already reported for the release.
                    if not (fleet.candidate and found in told):
                        yield fleet.problem(found)
                    told.append(found)
            except Absent:
                continue

    return run


def nodes_of(subject: Subject) -> tuple[GpuPool | CpuPool, list[InstanceType]]:
    """Return the node group of Triton and its instance types. Raises Absent if the group or a type is unknown."""
    cpu = subject.document.nodes.__dict__.get("cpu")
    if cpu is None or subject.document.triton.pool != CPU_POOL_NAME:
        return pool_of(subject)
    return cpu, types_of(cpu)


def types_of(group: NodeGroup) -> list[InstanceType]:
    """Return the instance types of a group. Raises Absent if one of them is unknown."""
    if not group.types or len(group.types) != len(group.instance_types):
        raise Absent("instanceTypes")
    return group.types


def pool_of(subject: Subject) -> tuple[GpuPool, list[InstanceType]]:
    """Return the GPU pool of Triton and its instance types. Raises Absent if the pool or a type is unknown."""
    wanted = subject.document.triton.pool
    pool = next((pool for pool in subject.document.gpu.pools if pool_name(pool) == wanted), None)
    if pool is None:
        raise Absent("triton.pool")
    types = pool.gpu_types
    if len(types) != len(pool.instance_types):
        raise Absent("instanceTypes")
    return pool, types
