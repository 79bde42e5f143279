"""The arithmetic of benchmarks/, what a busy machine is told, and the page of results."""

from math import log
from pathlib import Path

import pytest
import typer

from benchmarks import autoscaling, measurement, results_page
from benchmarks.batching import ARTICLES_DELAYS_US, TUNED, _variants, times
from benchmarks.gateway import Protocol, Run, Way, added
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


@pytest.mark.parametrize(
    ("model", "trace", "said"),
    [("resnet", None, "there is no resnet; give one of batching, single"), ("single", "waves", "there is no waves")],
)
def test_an_unknown_model_or_trace_is_told(model: str, trace: str | None, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        autoscaling.main(model, trace, start=30)


def test_what_the_gateway_adds_is_the_difference_of_each_round() -> None:
    def run(way: Way, protocol: Protocol, number: int, p50: float, p99: float) -> Run:
        return Run(way=way, protocol=protocol, round=number, requests=1, p50_ms=p50, p99_ms=p99, late_p95_ms=0.0)

    found = added(
        [
            *(run("pod", protocol, number, 1.0, 4.0 + number) for number in (0, 1) for protocol in ("http", "grpc")),
            *(run("gateway", "http", number, 1.5, 5.0 + number) for number in (1, 0)),
            *(run("gateway", "grpc", number, 1.25 + number / 2, 4.0 + number) for number in (0, 1)),
        ]
    )
    half = 12.706 * 0.25  # of two rounds that differ by 0.5
    assert {(one.protocol, one.percentile): one.ms for one in found} == {
        ("http", "p50"): (0.5, 0.5, 0.5),
        ("http", "p99"): (1.0, 1.0, 1.0),
        ("grpc", "p50"): pytest.approx((0.5, 0.5 - half, 0.5 + half)),
        ("grpc", "p99"): (0.0, 0.0, 0.0),
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
