"""Reports as JSON: written ones are read again, and others' input is checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackctl.review import report
from tests.stackctl.review import scenarios


@pytest.mark.parametrize("make", [scenarios.much, scenarios.nothing, scenarios.failed])
def test_a_report_is_read_as_it_was_written(make: Any) -> None:
    assert report.from_json(make().to_json()) == make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 3}, "schema 3; this program reads schema 5"),
        ({"stack": 1}, "report.stack: int where str is expected"),
        ({"more": 1}, "report: unknown keys more"),
        ({"plan": {}}, "report.plan: steps missing"),
        ({"models": [{"model": "a", "before": True, "after": 1}]}, r"report.models\[0\].before: bool where int is expected"),
        ({"plan": {"steps": [{"action": "explode", "type": "t", "name": "n"}]}}, r"report.plan.steps\[0\].action"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    document = {**json.loads(scenarios.nothing().to_json()), **change}
    with pytest.raises(report.UnreadableReport, match=message):
        report.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "amount", ["NaN", "Infinity", "1E+999999", "-1E+13", "many", "1_0", " 1", "\uff11", "1,5", "1e-999"]
)
def test_an_amount_that_is_none_is_refused(amount: str) -> None:
    document = json.loads(scenarios.much().to_json())
    document["cost"]["after"]["max"] = amount
    with pytest.raises(report.UnreadableReport, match=r"report\.cost\.after\.max: .* is not a number"):
        report.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "nothing", "[" * 100_000, "x" * (report.MOST_BYTES + 1)])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(report.UnreadableReport):
        report.from_json(text)
