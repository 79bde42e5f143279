"""The stacks that benchmarks/engine.py measures, and the arithmetic of its table."""

from __future__ import annotations

import pytest

from benchmarks import engine, results_page
from spec.settings import load

COUNTS = {
    "models": lambda settings: len(settings.models.serving),
    "pools": lambda settings: len(settings.gpu.pools),
    "fleets": lambda settings: len(settings.each_fleet),
}


@pytest.mark.parametrize("kind", engine.PREVIEWED)
def test_the_largest_stack_of_each_kind_is_a_valid_one_with_so_many(kind: engine.Kind) -> None:
    number = engine.PREVIEWED[kind][-1]
    assert COUNTS[kind](load(engine.STACKS[kind](number), engine.STACK)) == number


def test_growth_is_the_processor_time_of_each_resource_that_is_more() -> None:
    costs = [{"cpu_seconds": cpu, "resources": resources} for cpu, resources in ((5.0, 100), (6.0, 300), (9.0, 400))]
    assert results_page._growth(costs) == [5.0, 30.0]
