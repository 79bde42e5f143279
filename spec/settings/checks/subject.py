"""What a check looks at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from spec.settings.gpu import GpuPool
from spec.settings.model import Document
from spec.settings.problem import Problem
from spec.settings.section import Absent


@dataclass(frozen=True)
class Subject:
    """A stack file (perhaps with values missing because they are invalid), the stack's name, and the date of the run."""

    document: Document
    stack: str
    today: date


@dataclass(frozen=True)
class PoolSubject:
    """One GPU pool of a stack file, and its path."""

    pool: GpuPool
    path: str
    document: Document


# A check yields its problems. It reads what it needs and simply ends (Absent) where that is missing or invalid.
Check = Callable[[Subject], Iterator[Problem]]
PoolCheck = Callable[[PoolSubject], Iterator[Problem]]


def pool_name(pool: GpuPool) -> str | None:
    """The name of a pool, None while it is missing or invalid: that must not end a search among the other pools."""
    try:
        return pool.name
    except Absent:
        return None
