"""Facts of a report in addition to the engine's plan, from a stack of this repository."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spec.settings import Settings
from stackctl.cost import prices, throughput
from stackctl.review import collect, document, sections
from stackctl.review.plan import Plan
from stackctl.review.report import MeasuredCost, ModelMove
from tests.spec.stack_config import settings
from tests.spec.test_blue_green import BLUE_GREEN, WITH_CANDIDATE
from tests.spec.test_fleets import released
from tests.stackctl.cost.test_usage import stack

TODAY = date(2026, 11, 21)
HOUR = prices.load("us-west-2").usd("ec2.g5.xlarge")
"""Of the node that one Triton of prod fills."""


def tuned(config: dict[str, Any]) -> None:
    """Add evidence for `filetype`, and remove the release, which would not match another want."""
    config["models"]["serving"]["filetype"]["tuned"] = "benchmarks/results/filetype-x.json"
    del config["models"]["release"]


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a measured rate of `filetype`, like `modelctl tune`."""
    machine = {"cpu": "A CPU", "cpus": 2, "server_on_loopback": True}
    found = {"model": "filetype", "winner": {"rate": 7.5}, "machine": machine}
    (tmp_path / "filetype-x.json").write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr(throughput, "RESULTS", tmp_path)


def comment(monkeypatch: pytest.MonkeyPatch, then: Settings, now: Settings) -> tuple[str, tuple[MeasuredCost, ...]]:
    """Return the comment about prod with these settings, and its report's measured costs."""
    monkeypatch.setattr(collect, "settings_of", lambda _: now)
    monkeypatch.setattr(collect, "settings_at", lambda *_: then)
    made = collect.report("prod", Plan(()), "main", TODAY)
    assert made.cost is not None
    return document.render([made], title="t", name="n"), made.cost.measured


def test_measured_throughput_is_told_as_what_a_million_inferences_cost(
    evidence: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, measured = comment(monkeypatch, stack("prod"), stack("prod", tuned))
    usd = HOUR / (Decimal("7.5") * 3600) * 10**6
    assert measured == (MeasuredCost("filetype", None, usd),)
    assert f"\nA million inferences of `filetype` at its measured rate, the node alone: {usd:.2f} US$.\n" in text
    assert "\nno measured throughput of speech, text\\_detection, " in text
    assert "\nbefore: no measured throughput of filetype, speech, " in text


def test_without_measured_throughput_the_comment_says_of_what(monkeypatch: pytest.MonkeyPatch) -> None:
    text, measured = comment(monkeypatch, stack("prod"), stack("prod"))
    assert measured == ()
    assert text.count("no measured throughput of filetype, speech, ") == 1


def test_a_region_without_prices_is_told_and_costs_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stack("prod")
    monkeypatch.setattr(collect, "settings_of", lambda _: settings)
    monkeypatch.setattr(collect, "settings_at", lambda *_: settings)
    monkeypatch.setattr(prices, "load", lambda _: prices.PriceTable("us-gov-west-1", {}))
    made = collect.report("prod", Plan(()), "main", TODAY)
    assert made.cost is None
    assert "the cost is not known: there is no price table of us-gov-west-1: " in document.render(
        [made], title="t", name="n"
    )


def test_a_model_that_moves_to_another_fleet_is_told_and_requests_that_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"fleets[1].weights": {"tokenize": 0}}
    one = {"fleets[1].models": ["embed", "pipeline"]}

    def moves(then: dict[str, Any], now: dict[str, Any]) -> tuple[str, tuple[ModelMove, ...]]:
        old, new = released(then), released(now)
        monkeypatch.setattr(collect, "settings_of", lambda _: new)
        monkeypatch.setattr(collect, "settings_at", lambda *_: old)
        found = collect.report("staging", Plan(()), "main", TODAY)
        return "\n".join(item for section in sections.of(found) for item in section.items), found.moves

    text, found = moves({}, both)
    assert found == (ModelMove("tokenize", ("cpu", "g5"), ("cpu", "g5 (weight 0)")),)
    assert "- `tokenize` moves: served by `cpu` and `g5`, then by `cpu` and `g5 (weight 0)`" in text
    assert moves(both, one)[1] == (ModelMove("tokenize", ("cpu", "g5 (weight 0)"), ("cpu",)),)
    text, found = moves({}, one)
    assert found == (ModelMove("tokenize", ("cpu", "g5"), ("cpu",), torn=("g5",)),)
    assert (
        "**Requests are lost:** `g5` still has a part of them while its pods are replaced; give the model the weight 0"
        in text
    )
    assert moves(one, one)[1] == ()


@pytest.mark.parametrize(
    ("then", "now", "line"),
    [
        (BLUE_GREEN, WITH_CANDIDATE, f"- candidate none → `aaaaaaaaaaaa{52 * '0'}` with 5 % of the requests"),
        (WITH_CANDIDATE, BLUE_GREEN, f"- candidate `aaaaaaaaaaaa{52 * '0'}` with 5 % of the requests → none"),
        (
            BLUE_GREEN,
            {**WITH_CANDIDATE, "models.candidate.percent": 0, "models.candidate.mirrorPercent": 20},
            f"- candidate none → `aaaaaaaaaaaa{52 * '0'}` with 0 % of the requests and copies of 20 %",
        ),
        (WITH_CANDIDATE, WITH_CANDIDATE, None),
    ],
)
def test_a_candidate_is_told_with_its_part_of_the_requests(
    monkeypatch: pytest.MonkeyPatch, then: dict[str, Any], now: dict[str, Any], line: str | None
) -> None:
    monkeypatch.setattr(collect, "settings_of", lambda _: settings(now))
    monkeypatch.setattr(collect, "settings_at", lambda *_: settings(then))
    found = collect.report("staging", Plan(()), "main", TODAY)
    (models,) = [section for section in sections.of(found) if section.title == "Models"] or [None]
    assert (models and list(models.items)) == (line and [line])
    assert found.moves == ()
