"""The simulated rollouts behind the table of docs/canary-gate.md, and that table."""

import json
from dataclasses import replace

import pytest

from benchmarks import canary_gate
from benchmarks.canary_gate import CASES, RESULTS, Row, simulate, table, wilson
from modelctl.rollout.limits import Limits
from tests.paths import ROOT

BAD = [case for case in CASES if case.bad]
SHORT = replace(Limits(), watch=20.0)


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_a_bad_canary_is_taken_back(case: canary_gate.Case) -> None:
    assert {simulate(case, seed, SHORT)[0] for seed in range(2)} == {"taken back"}


def test_a_right_canary_gets_all_requests_after_it_has_had_enough() -> None:
    verdict, seconds = simulate(CASES[0], 1, SHORT)
    assert verdict == "done"
    assert seconds >= 2 * SHORT.terms.seconds + SHORT.watch + 60  # 747 requests are more than a minute of one in twenty


def test_a_right_canary_with_few_requests_is_not_judged() -> None:
    assert simulate(replace(CASES[0], rate=5.0), 1, replace(SHORT, canary=120.0)) == ("not enough requests", 120.0)


def test_an_interval_holds_what_may_have_been() -> None:
    assert wilson(0, 200) == (0.0, 0.0188)
    assert wilson(190, 200) == (0.9104, 0.9726)


def test_the_table_of_the_page_is_that_of_the_newest_record() -> None:
    newest = max(RESULTS.glob("canary-gate-*.json"), key=lambda path: path.name)
    rows = [Row.model_validate(row) for row in json.loads(newest.read_text())["rows"]]
    assert "\n".join(table(rows)) in (ROOT / "docs" / "canary-gate.md").read_text()


def test_load_of_some_pods_alone_passes_in_a_longer_step() -> None:
    case = next(case for case in CASES if case.apart == 0.1)

    def taken_back(seconds: float) -> int:
        limits = replace(SHORT, terms=replace(SHORT.terms, seconds=seconds))
        return sum(simulate(case, seed, limits)[0] == "taken back" for seed in range(40))

    assert taken_back(180.0) <= 1 < taken_back(60.0) < 10
