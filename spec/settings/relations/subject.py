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
    """A stack file (perhaps with values missing because they are invalid), the stack's name, and the date of the run."""

    document: Document
    stack: str
    today: date

    @property
    def environment(self) -> str:
        """Return what the stack is, as its file says; where that is misspelt, as its name does, which hides no rule."""
        said: str | None = self.document.__dict__.get("environment")
        return said or next(iter(environments_in_name(self.stack)), "")


@dataclass(frozen=True)
class PoolSubject:
    """One GPU pool of a stack file, and its path."""

    pool: GpuPool
    path: str
    document: Document


def of_each_pool(check: Callable[[PoolSubject], Iterator[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    """Make a rule about one pool one about all: a value that one of them lacks does not end it for the others."""

    @wraps(check)
    def run(subject: Subject) -> Iterator[Problem]:
        for index, pool in enumerate(subject.document.gpu.pools):
            try:
                yield from check(PoolSubject(pool, f"gpu.pools[{index}]", subject.document))
            except Absent:
                continue

    return run


def of_each_fleet(check: Callable[[Subject], Iterator[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    """Make a rule about Triton one about each fleet, as if it were the only one: what one of them lacks ends no other."""

    @wraps(check)
    def run(subject: Subject) -> Iterator[Problem]:
        told: list[Problem] = []
        for fleet in subject.document.each_fleet:
            try:
                for found in check(replace(subject, document=fleet.stack)):
                    # What a candidate shares with the release has been told of that.
                    if not (fleet.candidate and found in told):
                        yield fleet.problem(found)
                    told.append(found)
            except Absent:
                continue

    return run


def nodes_of(subject: Subject) -> tuple[GpuPool | CpuPool, list[InstanceType]]:
    """Return the group of nodes that Triton runs on and its instance types; raises Absent when one of them is not known."""
    cpu = subject.document.nodes.__dict__.get("cpu")
    if cpu is None or subject.document.triton.pool != CPU_POOL_NAME:
        return pool_of(subject)
    return cpu, types_of(cpu)


def types_of(group: NodeGroup) -> list[InstanceType]:
    """Return the instance types of a group; raises Absent when one of them is not known."""
    if not group.types or len(group.types) != len(group.instance_types):
        raise Absent("instanceTypes")
    return group.types


def pool_of(subject: Subject) -> tuple[GpuPool, list[InstanceType]]:
    """Return the GPU pool that Triton runs on and its instance types; raises Absent when there is none of known types."""
    wanted = subject.document.triton.pool
    pool = next((pool for pool in subject.document.gpu.pools if pool_name(pool) == wanted), None)
    if pool is None:
        raise Absent("triton.pool")
    types = pool.gpu_types
    if len(types) != len(pool.instance_types):
        raise Absent("instanceTypes")
    return pool, types
