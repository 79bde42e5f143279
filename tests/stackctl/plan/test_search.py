"""The cheapest fleets: compared with every possible plan, and with prices by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackctl.plan.search import Group, PlannedFleet, Pool, cheapest

SMALL, LARGE = Pool("small", 100.0, 1), Pool("large", 350.0, 4)


def group(name: str, **pods: float) -> Group:
    return Group((name,), pods)


def shown(fleets: Sequence[PlannedFleet], fewest: int = 1) -> list[tuple[str, str, int, int]]:
    return sorted((fleet.pool.name, " ".join(fleet.models), fleet.replicas(fewest), fleet.nodes(fewest)) for fleet in fleets)


@pytest.mark.parametrize(
    ("groups", "fewest", "fleets", "usd", "bound"),
    [
        # Together they keep one pod busy.
        ([group("a", small=0.5), group("b", small=0.5)], 1, [("small", "a b", 1, 1)], 100, 100),
        ([group("a", small=0.5), group("b", small=0.6)], 1, [("small", "a b", 2, 2)], 200, 110),
        # Four pods on the large node cost less than four small ones; three do not.
        ([group("a", small=3.5, large=3.5)], 1, [("large", "a", 4, 1)], 350, 350),
        ([group("a", small=3.0, large=3.0)], 1, [("small", "a", 3, 3)], 300, 300),
        # The existing load of the large node leaves room for more.
        ([group("a", large=3.0), group("b", small=1.0, large=0.9)], 1, [("large", "a b", 4, 1)], 350, 350),
        # At least two pods, so one fleet for both.
        ([group("a", small=0.1), group("b", small=0.1)], 2, [("small", "a b", 2, 2)], 200, 200),
        # A pool each, because neither can do both.
        ([group("a", small=1.0), group("b", large=1.0)], 1, [("large", "b", 1, 1), ("small", "a", 1, 1)], 450, 350),
    ],
)
def test_plans(groups: list[Group], fewest: int, fleets: list[tuple[str, str, int, int]], usd: float, bound: float) -> None:
    found = cheapest(groups, [SMALL, LARGE], fewest, lambda *_: True)
    assert found is not None
    assert (shown(found.fleets, fewest), found.usd, round(found.bound, 6), found.proven) == (fleets, usd, bound, True)


def test_models_that_fit_no_pod_together_are_on_two_fleets_and_one_that_fits_none_has_no_plan() -> None:
    groups = [group("a", small=0.2), group("b", small=0.2)]
    found = cheapest(groups, [SMALL], 1, lambda _, models: len(models) == 1)
    assert found is not None and shown(found.fleets) == [("small", "a", 1, 1), ("small", "b", 1, 1)]
    assert cheapest(groups, [SMALL], 1, lambda *_: False) is None


def test_a_search_that_is_cut_short_says_that_it_is_unproven() -> None:
    groups = [group(f"m{index}", small=0.7, large=0.6) for index in range(9)]
    whole, cut = (cheapest(groups, [SMALL, LARGE], 1, lambda *_: True, most) for most in (10**6, 5))
    assert whole is not None and cut is not None
    assert (whole.proven, cut.proven) == (True, False)
    assert whole.bound == cut.bound <= whole.usd <= cut.usd


def every_plan(groups: Sequence[Group], pools: Sequence[Pool]) -> Iterator[list[PlannedFleet]]:
    """Yield every partition of the groups, with every pool for each part."""
    if not groups:
        yield []
        return
    first, *rest = groups
    for plan in every_plan(rest, pools):
        for index, fleet in enumerate(plan):
            yield [*plan[:index], PlannedFleet(fleet.pool, (*fleet.groups, first)), *plan[index + 1 :]]
        for pool in pools:
            yield [*plan, PlannedFleet(pool, (first,))]


BUSY = st.floats(0.05, 6.0)


@given(
    st.lists(st.fixed_dictionaries({"small": BUSY, "large": BUSY}), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_no_plan_is_cheaper_and_none_is_below_the_bound(busy: list[dict[str, float]], fewest: int, together: int) -> None:
    groups = [Group((f"m{index}",), pods) for index, pods in enumerate(busy)]
    pools = [SMALL, LARGE]
    found = cheapest(groups, pools, fewest, lambda _, models: len(models) <= together)
    costs = [
        sum(fleet.usd(fewest) for fleet in plan)
        for plan in every_plan(groups, pools)
        if all(len(fleet.groups) <= together for fleet in plan)
    ]
    assert found is not None and found.proven
    assert found.usd == pytest.approx(min(costs))
    assert found.bound <= min(costs) + 1e-6
