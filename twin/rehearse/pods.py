"""Let the stack to be changed have several pods of Triton, with a node for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spec import stack_file
from twin.engine import stack_files
from twin.engine.stack_files import STACK

MOST = 2
"""With two pods, one answers while the other is replaced. More would show the same, and this machine runs each."""
_TRITON, _GPU = "triton-eks:triton", "triton-eks:gpu"


def pins(programs: Sequence[Path], wanted: int) -> Sequence[Mapping[str, Any]]:
    """Return the keys to pin in the twin's copy of each program's stack file for `wanted` pods of Triton, at most `MOST`.

    Nothing is pinned in any file if one has no number of pods or nodes of their pool, or already has enough pods.
    The rehearsed change then decides the numbers.
    """
    found = [dict(_pins(stack_files.read(stack_files.tracked_file(STACK, one)), min(wanted, MOST))) for one in programs]
    return found if all(found) else [{} for _ in programs]


def _pins(config: Mapping[str, Any], wanted: int) -> Iterator[tuple[str, Any]]:
    triton, gpu = (stack_file.decoded(config.get(section)) for section in (_TRITON, _GPU))
    pools = gpu.get("pools") if isinstance(gpu, Mapping) else None
    if not isinstance(triton, Mapping) or not isinstance(pools, list):
        return
    replicas = triton.get("replicas")
    own = [pool for pool in pools if isinstance(pool, Mapping) and pool.get("name") == triton.get("pool")]
    if isinstance(replicas, int) and replicas < wanted and own and all(map(_is_counted, own)):
        yield f"{_TRITON}.replicas", wanted
        yield f"{_GPU}.pools", [_with_nodes(pool, wanted) if pool in own else pool for pool in pools]


def _is_counted(pool: Mapping[str, Any]) -> bool:
    return all(isinstance(pool.get(key), int) for key in ("desired", "max"))


def _with_nodes(pool: Mapping[str, Any], wanted: int) -> dict[str, Any]:
    return {**pool, **{key: max(pool[key], wanted) for key in ("desired", "max")}}
