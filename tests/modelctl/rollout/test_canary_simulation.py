"""The simulated rollouts behind the table of docs/canary-gate.md, and that table."""

from dataclasses import replace

import pytest

from benchmarks import canary_gate
from benchmarks.canary_gate import CASES, RESULTS, WATCHED, Report, simulate, simulate_watch, table, wilson
from modelctl.rollout.limits import Limits
from tests.paths import ROOT

BAD = [case for case in CASES if case.bad]
SHORT = replace(Limits(), watch=20.0)


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_a_bad_canary_is_taken_back(case: canary_gate.Case) -> None:
    assert {simulate(case, seed, SHORT)[0] for seed in range(2)} == {"taken back"}


def test_a_right_canary_gets_all_requests_after_it_has_had_enough() -> None:
    verdict, seconds = simulate(replace(CASES[0], rate=50.0), 1, SHORT)
    assert verdict == "done"
    # At one request in twenty, 747 take about 300 s; the second step gets them sooner.
    assert seconds >= 270 + SHORT.terms.seconds + SHORT.watch


def test_a_right_canary_with_few_requests_is_not_judged() -> None:
    assert simulate(replace(CASES[0], rate=5.0), 1, replace(SHORT, canary=120.0)) == ("not enough requests", 120.0)


def test_an_interval_holds_what_may_have_been() -> None:
    assert wilson(0, 200) == (0.0, 0.0188)
    assert wilson(190, 200) == (0.9104, 0.9726)


def test_the_tables_of_the_page_are_those_of_the_newest_record() -> None:
    newest = max(RESULTS.glob("canary-gate-*.json"), key=lambda path: path.name)
    report = Report.model_validate_json(newest.read_text())
    page = (ROOT / "docs" / "canary-gate.md").read_text()
    assert "\n".join(table(report.rows, "canary")) in page
    assert "\n".join(table(report.watched, "after a rolling update")) in page


def test_after_a_rolling_update_a_failing_release_is_taken_back_and_a_right_one_is_not() -> None:
    ends = {case.name: simulate_watch(case, 1, SHORT)[0] for case in WATCHED}
    assert ends["fails 2 %"] == ends["twice as slow: a quarter over the SLO"] == "taken back"
    assert ends["right, with 10 requests/s"] == "not enough requests"
    assert simulate_watch(WATCHED[0], 1) == ("done", Limits().watch)


def test_load_of_some_pods_alone_passes_in_a_longer_step() -> None:
    case = next(case for case in CASES if case.apart == 0.1)

    def taken_back(seconds: float) -> int:
        limits = replace(SHORT, terms=replace(SHORT.terms, seconds=seconds))
        return sum(simulate(case, seed, limits)[0] == "taken back" for seed in range(40))

    assert taken_back(Limits().terms.seconds) <= 2 < taken_back(60.0) < 10
