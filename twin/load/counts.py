"""Count pods, or nodes by their NodeClaims: ready, starting and terminating ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twin.cluster.kube_api import Object


@dataclass(frozen=True)
class Counts:
    """`ready` ones are in use, `starting` ones are not yet, `ending` ones no longer."""

    ready: int
    starting: int
    ending: int


def count(objects: Sequence[Object]) -> Counts:
    """Return the counts of objects with a condition Ready."""
    staying = [one for one in objects if "deletionTimestamp" not in one["metadata"]]
    ready = sum(_is_ready(one) for one in staying)
    return Counts(ready, len(staying) - ready, len(objects) - len(staying))


def _is_ready(one: Object) -> bool:
    conditions = one.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
