"""The arithmetic of benchmarks/, what a busy machine is told, and the page of results."""

from math import log
from pathlib import Path

import pytest

from benchmarks import measurement, results_page
from benchmarks.batching import ARTICLES_DELAYS_US, TUNED, _variants, times
from modelctl.repository.load import load
from modelctl.tune import evidence
from modelctl.tune.evidence import Values


def test_a_ratio_is_the_geometric_mean_of_the_rounds_with_its_interval() -> None:
    assert times([200, 200], [100, 50]) == (2.83, 0.03, round(8**0.5 * 2.718281828 ** (12.706 * log(2) / 2), 2))
    assert times([120, 144, 120], [100, 120, 100]) == (1.2, 1.2, 1.2)
    assert times([120, 144], [100, 0]) is None


def test_only_batching_differs_between_the_configurations() -> None:
    model = load(Path(measurement.RESULTS.parent / "models"))[0]
    found = _variants(model.config, Values(maxBatchSize=16, maxQueueDelayUs=250, instances=2))
    said = {
        name: (
            config.max_batch_size,
            config.instance_group[0].count,
            config.HasField("dynamic_batching"),
            list(config.dynamic_batching.preferred_batch_size),
            config.dynamic_batching.max_queue_delay_microseconds,
            config.dynamic_batching.HasField("default_queue_policy"),
        )
        for name, config in found.items()
    }
    assert said == {
        TUNED: (16, 2, True, [], 250, True),
        "no batching": (1, 2, False, [], 0, False),
        "Triton's defaults": (model.config.max_batch_size, 1, True, [], 0, False),
        **{f"articles, {delay} µs": (32, 2, True, [8, 16, 32], delay, False) for delay in ARTICLES_DELAYS_US},
    }


def test_a_busy_machine_is_refused_or_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "load_average", lambda: 1000.0)
    monkeypatch.setattr(measurement, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(
        SystemExit, match="error: the machine is busy: its load average is 1000, and a measurement begins at"
    ):
        measurement.conditions(allow_busy=False)
    made = measurement.conditions(allow_busy=True)
    assert (made.busy, made.load_before) == (True, 1000.0)
    assert "priority" in made.scheduling

    monkeypatch.setattr(evidence, "load_average", lambda: 0.0)
    assert not measurement.conditions(allow_busy=False).busy


def test_the_page_of_results_is_that_of_the_records() -> None:
    assert results_page.PAGE.read_text() == results_page.page(measurement.RESULTS), "run `python benchmarks/results_page.py`"
