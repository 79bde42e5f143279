"""The number of Triton pods for the change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spec import yaml_writer
from spec.settings import load_stack_file
from twin.engine import stack_files
from twin.host.home import REPOSITORY, TwinHome
from twin.rehearse import pods

TRITON, GPU = "triton-eks:triton", "triton-eks:gpu"
POOL = {"name": "g5", "min": 1, "desired": 1, "max": 1}
OTHER = {"name": "g6", "min": 0, "desired": 0, "max": 1}
TWO = {f"{TRITON}.replicas": 2, f"{GPU}.pools": [{**POOL, "desired": 2, "max": 2}, OTHER]}


def program(tmp_path: Path, triton: Any, pools: Any, name: str = "checkout") -> Path:
    tracked = stack_files.tracked_file("local", tmp_path / name)
    tracked.parent.mkdir(parents=True)
    tracked.write_bytes(yaml_writer.dump({"config": {TRITON: triton, GPU: pools}}))
    return tmp_path / name


def of(replicas: int | None) -> dict[str, Any]:
    return {"pool": "g5", **({"replicas": replicas} if replicas is not None else {})}


@pytest.mark.parametrize(
    ("triton", "gpu", "wanted", "pins"),
    [
        (of(1), {"pools": [POOL, OTHER]}, 2, TWO),
        (of(1), {"pools": [POOL, OTHER]}, 5, TWO),
        (json.dumps(of(1)), json.dumps({"pools": [POOL, OTHER]}), 2, TWO),
        (of(1), {"pools": [POOL, OTHER]}, 1, {}),
        (of(2), {"pools": [POOL, OTHER]}, 2, {}),
        (of(None), {"pools": [POOL, OTHER]}, 2, {}),
        (of(1), {"pools": [OTHER]}, 2, {}),
        (of(1), {"pools": [{"name": "g5", "max": 3}]}, 2, {}),
        (of(1), {"pools": 3}, 2, {}),
        ("x", {"pools": [POOL]}, 2, {}),
    ],
)
def test_two_pods_are_wanted_with_a_node_for_each_where_the_file_says_fewer(
    tmp_path: Path, triton: Any, gpu: Any, wanted: int, pins: Mapping[str, Any]
) -> None:
    assert pods.pins([program(tmp_path, triton, gpu)], wanted) == [pins]


def test_a_pool_with_more_nodes_keeps_them(tmp_path: Path) -> None:
    (pins,) = pods.pins([program(tmp_path, of(1), {"pools": [{**POOL, "desired": 3, "max": 4}]})], 2)
    assert pins[f"{GPU}.pools"] == [{**POOL, "desired": 3, "max": 4}]


def test_a_change_of_the_number_of_pods_is_left_as_it_is(tmp_path: Path) -> None:
    programs = [program(tmp_path, of(number), {"pools": [POOL]}, str(number)) for number in (1, 3)]
    assert pods.pins(programs, 2) == [{}, {}]


def test_the_stack_of_the_twin_may_have_two_pods(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    (pins,) = pods.pins([REPOSITORY], pods.MOST)
    for key, value in pins.items():
        stack_files.pin(home, "local", key, value)
    settings = load_stack_file(stack_files.write_merged(home, "local"))
    assert [fleet.stack.triton.replicas for fleet in settings.each_fleet] == [2]
    assert [pool.desired for pool in settings.gpu.pools] == [2]
