"""The arithmetic of benchmarks/, what a busy machine is told, and the page of results."""

from math import log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer

from benchmarks import autoscaling, delivery, measurement, results_page
from benchmarks.batching import ARTICLES_DELAYS_US, TUNED, _variants, times
from benchmarks.gateway import Latencies, added, by_second
from modelctl.loadgen import Outcome, Result
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
        "Triton's defaults, tuned instances": (model.config.max_batch_size, 2, True, [], 0, False),
        **{f"articles, {delay} µs": (32, 2, True, [8, 16, 32], delay, False) for delay in ARTICLES_DELAYS_US},
    }


@pytest.mark.parametrize(
    ("model", "trace", "said"),
    [("resnet", None, "there is no resnet; give one of batching, single"), ("single", "waves", "there is no waves")],
)
def test_an_unknown_model_or_trace_is_told(model: str, trace: str | None, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        autoscaling.main(model, trace, start=30)


def test_a_delivery_without_room_for_its_files_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gib = 1024**3
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=15 * gib))
    delivery.check_room(tmp_path, [0, 1, 4])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=15 * gib - gib // 2))
    with pytest.raises(
        SystemExit, match=r"^error: .* has 14\.5 GiB free, and 15 are needed, three times the files: give another place "
    ):
        delivery.check_room(tmp_path, [0, 1, 4])


def test_a_stall_of_the_machine_is_not_what_the_gateway_adds() -> None:
    straight = np.linspace(2.0, 4.0, 101)
    stalled = straight + 50.0
    seconds: list[Latencies] = [{"pod": one, "gateway": one + 0.5} for one in (straight, stalled, straight, straight)]
    found = {one.percentile: one.ms for one in added("http", seconds, seed=1)}
    assert found == {name: pytest.approx((0.5, 0.5, 0.5)) for name in ("p50", "p99")}


def test_what_the_gateway_adds_has_the_interval_of_seconds_that_differ() -> None:
    straight = np.full(100, 2.0)
    seconds: list[Latencies] = [{"pod": straight, "gateway": straight + more} for more in (0.0, 1.0) * 50]
    p50, p99 = added("grpc", seconds, seed=1)
    assert (p50.protocol, p50.percentile, p99.percentile) == ("grpc", "p50", "p99")
    # Half of the seconds are a millisecond slower, so that the median is as uncertain as it can be, and p99 is certain.
    assert (p50.ms[1:], p99.ms) == ((0.0, 1.0), (1.0, 1.0, 1.0))


def test_latencies_of_a_load_are_told_apart_by_way_and_second_from_when_they_were_sent() -> None:
    times = [(0.1, 0.2, 0.203), (0.9, 0.9, 0.904), (1.5, 1.501, 1.506)]
    load = Result(tuple(Outcome(due, sent, done, "OK") for due, sent, done in times), end=2.0)
    first, second = by_second(load, ["pod", "gateway", "pod"])
    assert (first["pod"], first["gateway"]) == (pytest.approx([3.0]), pytest.approx([4.0]))
    assert (second["pod"], len(second["gateway"])) == (pytest.approx([5.0]), 0)


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
