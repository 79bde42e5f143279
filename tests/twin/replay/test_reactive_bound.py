"""The bound of reactive rules, by hand and compared with the recorded results of the rules."""

import json
from statistics import fmean

import numpy as np
import pytest

from benchmarks import autoscaling, autoscaling_rules
from benchmarks.measurement import RESULTS
from benchmarks.reactive_bound import ReactiveBound
from twin.replay.traces import SlowPod, Trace

SINGLE = autoscaling_rules.MODELS["single"]
"""2.5 requests/s a pod, of 0.4 s each, within 1 s."""


def bound(shape: list[float], start: int, slow: SlowPod | None = None) -> ReactiveBound:
    """Return the bound of a load of these numbers of pods, each for ten minutes."""
    trace = Trace("by hand", {autoscaling_rules.NAME: np.repeat(np.array(shape) * 2.5, 600)}, slow_pod=slow)
    return ReactiveBound(
        autoscaling_rules.ours(SINGLE, start, bounded=True), trace, autoscaling_rules.FEWEST, autoscaling_rules.MOST
    )


def test_what_comes_beyond_the_pods_is_missed_until_the_ones_for_it_have_started() -> None:
    crowd = bound([2, 10], start=100)
    assert crowd.least_hours() == pytest.approx((2 * 600 + 10 * 600) / 3600)
    assert crowd.missed_percent(1.99) is None
    # Eight pods' work for 100 s, minus 0.6 s of waiting at two pods.
    assert crowd.missed_percent(2.0) == pytest.approx(100 * (8 * 100 - 2 * 0.6) / (2 * 600 + 10 * 600))
    assert crowd.missed_percent(2.0 + 1 / 3) == pytest.approx(100 * (7 * 100 - 3 * 0.6) / (2 * 600 + 10 * 600))


def test_nodes_without_pods_are_paid_for_a_quarter_of_an_hour_and_then_go_one_a_minute() -> None:
    going = 60 * (9 + 8 + 7 + 6 + 5)
    assert bound([10, 2, 2], start=100).least_hours() == pytest.approx((10 * 1500 + going) / 3600, abs=0.01)
    assert bound([4, 2, 2], start=100).least_hours() == pytest.approx((4 * 1500 + 60 * 3 + 2 * 240) / 3600, abs=0.01)
    assert bound([0, 0], start=100).least_hours() == pytest.approx(2 * 1200 / 3600), "no fewer than two"


def test_a_slow_pod_is_late_with_its_part_and_more_pods_make_it_smaller_a_start_later() -> None:
    slow = bound([3, 3, 3, 3], start=60, slow=SlowPod(begins=600, ends=1200, factor=4))
    # One of three pods is late for ten of forty minutes; with hours for nine more, also in the nodes' time, one of twelve.
    assert slow.missed_percent(2.0) == pytest.approx(100 / 4 / 3, rel=0.05)
    assert slow.missed_percent((3 * 2400 + 9 * 1500) / 3600) == pytest.approx(100 / 4 * (0.1 / 3 + 0.9 / 12), rel=0.05)


def newest(compared: str = "rules") -> autoscaling.Report:
    records = (json.loads(path.read_text()) for path in RESULTS.glob("autoscaling-*.json"))
    found = max((record for record in records if record["compared"] == compared), key=lambda record: str(record["started"]))
    return autoscaling.Report.model_validate(found)


def simulated() -> dict[tuple[str, int, str], tuple[autoscaling.Table, autoscaling.Row, list[autoscaling.Cell]]]:
    """Return each cell of the comparison, by model, start and trace, with all reactive rules and settings."""
    others = {
        (table.model, table.start_seconds, row.trace): row.cells
        for table in newest("other settings").tables
        for row in table.rows
    }
    found = {}
    for table in newest().tables:
        for row in table.rows:
            where = (table.model, table.start_seconds, row.trace)
            cells = [*(cell for cell in row.cells if cell.rule != "oracle"), *others.get(where, ())]
            found[where] = (table, row, cells)
    return found


def meets(goal: autoscaling.Goal, cell: autoscaling.Cell) -> bool:
    """Return whether a rule meets the whole goal."""
    return all(goal.met(fmean(cell.missed_percent), fmean(cell.gpu_hours)))


def test_the_pods_of_a_flash_crowd_alone_take_more_hours_than_beside_a_rule_that_misses_most_of_it() -> None:
    (table,) = (table for table in newest().tables if (table.model, table.start_seconds) == ("single", 240))
    (row,) = (row for row in table.rows if row.trace == "flash-crowd")
    crowd = autoscaling.bound_of(table, row)
    # Two pods all the time. Eight more from 1 to 26 s after it begins; they are removed a quarter of an hour after its end,
    # the first 36 s later, and the others a minute apart.
    begin, go = [601 + 3.6 * pod for pod in range(8)], [1500 + 36 + 900 + 60 * pod for pod in range(8)]
    assert crowd.least_hours() == pytest.approx((2 * 3600 + sum(go) - sum(begin)) / 3600, abs=0.01)
    assert autoscaling.least_missed(autoscaling.goal_of(row), crowd) is None


def test_four_pods_before_the_flash_crowd_of_batching_miss_too_much_of_it_with_a_start_of_600_s() -> None:
    table, row, _ = simulated()["batching", 600, "flash-crowd"]
    crowd, asked = autoscaling.bound_of(table, row), autoscaling.goal_of(row)
    # A third of the peak needs two pods. Two spare pods run the whole hour, because the crowd needs ten of twelve.
    missed = crowd.missed_percent(crowd.least_hours() + 2.01)
    assert missed is not None
    assert missed == pytest.approx(24.25, abs=0.005)
    assert missed > asked.missed


def test_the_two_cells_that_are_neither_met_nor_excluded_are_met_by_other_settings() -> None:
    found = {}
    for where, (table, row, cells) in simulated().items():
        asked = autoscaling.goal_of(row)
        if any(cell.rule == autoscaling_rules.OURS and meets(asked, cell) for cell in cells):
            continue
        if not autoscaling.is_excluded(asked, autoscaling.least_missed(asked, autoscaling.bound_of(table, row))):
            found[where] = {cell.rule for cell in cells if meets(asked, cell)}
    assert found == {
        ("batching", 600, "flash-crowd"): {autoscaling_rules.FLOOR, autoscaling_rules.FLOOR_ON_RATE},
        ("single", 600, "ramp"): {autoscaling_rules.NONE_TO_SPARE, autoscaling_rules.LESS_TO_SPARE},
    }


@pytest.mark.parametrize(
    ("setting", "met"),
    [
        (autoscaling_rules.OURS, {"batching": {"steps", "ramp", "diurnal"}, "single": {"steps", "diurnal"}}),
        (autoscaling_rules.NONE_TO_SPARE, {"batching": {"ramp", "diurnal"}, "single": {"steps", "ramp", "diurnal"}}),
        (
            autoscaling_rules.LESS_TO_SPARE,
            {"batching": {"steps", "ramp", "diurnal"}, "single": {"steps", "ramp", "diurnal"}},
        ),
        (autoscaling_rules.FLOOR, {"batching": {"steps", "ramp", "flash-crowd"}, "single": set()}),
        (autoscaling_rules.FLOOR_ON_RATE, {"batching": {"steps", "ramp", "diurnal", "flash-crowd"}, "single": set()}),
    ],
)
def test_no_setting_meets_the_goal_in_all_cells_that_are_not_excluded(setting: str, met: dict[str, set[str]]) -> None:
    found: dict[str, set[str]] = {model: set() for model in autoscaling_rules.MODELS}
    for (model, start, trace), (_, row, cells) in simulated().items():
        if start == 600 and any(cell.rule == setting and meets(autoscaling.goal_of(row), cell) for cell in cells):
            found[model].add(trace)
    assert found == met
    assert sum(map(len, met.values())) < 7


def test_less_to_spare_meets_the_goal_in_one_cell_more_than_ours() -> None:
    met = {setting: 0 for setting in (autoscaling_rules.OURS, autoscaling_rules.LESS_TO_SPARE)}
    for _, row, cells in simulated().values():
        by_rule = {cell.rule: cell for cell in cells}
        for setting in met:
            met[setting] += meets(autoscaling.goal_of(row), by_rule[setting])
    assert met == {autoscaling_rules.OURS: 20, autoscaling_rules.LESS_TO_SPARE: 21}


def test_less_to_spare_misses_no_less_of_any_trace_that_was_held_out() -> None:
    more = {}
    for table in newest("other settings, held out").tables:
        for row in table.rows:
            missed = {cell.rule: fmean(cell.missed_percent) for cell in row.cells}
            ours, less = missed[autoscaling_rules.OURS], missed[autoscaling_rules.LESS_TO_SPARE]
            assert round(less, 2) >= round(ours, 2)
            more[table.model, row.trace] = round(less - ours, 2) > 0
    assert {where for where, is_more in more.items() if not is_more} == {("batching", "walk"), ("batching", "spikes")}


def test_no_cell_is_excluded_that_a_rule_meets() -> None:
    compared = 0
    for where, (table, row, cells) in simulated().items():
        asked = autoscaling.goal_of(row)
        if row.trace != "diurnal" and any(meets(asked, cell) for cell in cells):
            least = autoscaling.least_missed(asked, autoscaling.bound_of(table, row))
            assert not autoscaling.is_excluded(asked, least), where
            compared += 1
    assert compared > 15


def test_no_rule_that_was_simulated_misses_less_than_the_bound_within_its_hours() -> None:
    compared = 0
    for where, (table, row, cells) in simulated().items():
        if row.trace == "diurnal":  # a day's bound takes a second, and is almost 0
            continue
        least = autoscaling.bound_of(table, row)
        for cell in cells:
            missed = least.missed_percent(fmean(cell.gpu_hours))
            if missed is not None:
                assert fmean(cell.missed_percent) >= 0.95 * missed, (where, cell)
                compared += 1
    assert compared > 100
