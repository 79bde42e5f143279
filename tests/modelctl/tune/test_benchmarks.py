"""The arithmetic of benchmarks/, messages on a busy machine, and the results page."""

import asyncio
from math import log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer

from benchmarks import autoscaling, delivery, measurement, results_page
from benchmarks.batching import ARTICLES_DELAYS_US, TUNED, _variants, times
from benchmarks.gateway import Added, Latencies, added, by_second
from benchmarks.gateway_throughput import Run, beside, full
from benchmarks.gateway_ways import PROTOCOLS, Way, bare_bootstrap
from modelctl.loadgen import Outcome, RequestFailed, Result
from modelctl.loadgen.result import SHED
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


def of_gateway(found: list[Added]) -> dict[str, Added]:
    """Return the gateway's added latency over the direct way, by percentile."""
    return {one.percentile: one for one in found if (one.way, one.beside) == ("gateway", "pod")}


def test_a_stall_of_the_machine_is_not_what_the_gateway_adds() -> None:
    straight = np.linspace(2.0, 4.0, 101)
    stalled = straight + 50.0
    seconds: list[Latencies] = [
        {"pod": one, "proxy": one + 0.2, "gateway": one + 0.5} for one in (straight, stalled, straight, straight)
    ]
    found = {(one.percentile, one.way, one.beside): one.ms for one in added("http", seconds, seed=1)}
    more = {("gateway", "pod"): 0.5, ("proxy", "pod"): 0.2, ("gateway", "proxy"): 0.3}
    assert found == {(name, *ways): pytest.approx((ms,) * 3) for name in ("p50", "p99") for ways, ms in more.items()}


def test_what_the_gateway_adds_has_the_interval_of_seconds_that_differ() -> None:
    straight = np.full(100, 2.0)
    seconds: list[Latencies] = [{"pod": straight, "proxy": straight, "gateway": straight + more} for more in (0.0, 1.0) * 50]
    found = of_gateway(added("grpc", seconds, seed=1))
    assert {one.protocol for one in found.values()} == {"grpc"}
    # Half of the seconds are a millisecond slower, so the median is as uncertain as possible, and p99 is certain.
    assert (found["p50"].ms[1:], found["p99"].ms) == ((0.0, 1.0), (1.0, 1.0, 1.0))


def test_latencies_of_a_load_are_told_apart_by_way_and_second_from_when_they_were_sent() -> None:
    times = [(0.1, 0.2, 0.203), (0.9, 0.9, 0.904), (1.5, 1.501, 1.506)]
    load = Result(tuple(Outcome(due, sent, done, "OK") for due, sent, done in times), end=2.0)
    first, second = by_second(load, ["pod", "gateway", "pod"])
    assert (first["pod"], first["gateway"]) == (pytest.approx([3.0]), pytest.approx([4.0]))
    assert (second["pod"], len(second["gateway"]), len(second["proxy"])) == (pytest.approx([5.0]), 0, 0)


def test_a_full_load_keeps_so_many_requests_open_and_counts_every_answer() -> None:
    numbers, most = [], 0
    open_: set[int] = set()

    async def send(number: int) -> None:
        nonlocal most
        open_.add(number)
        most = max(most, len(open_))
        await asyncio.sleep(0)
        open_.remove(number)
        numbers.append(number)
        if number % 10 == 0:
            raise RequestFailed(SHED)

    answered, refused = asyncio.run(full(send, 4, seconds=0.05))
    assert (most, open_) == (4, set())
    assert answered + refused == len(numbers) == len(set(numbers))
    assert refused == sum(number % 10 == 0 for number in numbers)

    async def broken(number: int) -> None:
        raise RequestFailed("500")

    with pytest.raises(ExceptionGroup) as failure:
        asyncio.run(full(broken, 4, seconds=60))
    assert {str(one) for one in failure.value.exceptions} == {"500"}


def test_a_way_is_held_beside_straight_to_the_pods_of_the_same_round() -> None:
    rates: dict[Way, tuple[float, ...]] = {"pod": (1000.0, 500.0), "proxy": (800.0, 400.0), "gateway": (600.0, 300.0)}
    runs = [
        Run(
            way=way,
            protocol=protocol,
            round=number,
            answered=1,
            refused=0,
            rate=rate,
            envoy_ms=0.0 if way == "pod" else 0.25,
        )
        for protocol in PROTOCOLS
        for way, found in rates.items()
        for number, rate in enumerate(found)
    ]
    found = {(one.protocol, one.way): (one.times, one.envoy_ms) for one in beside(runs)}
    assert found == {
        (protocol, way): ((times,) * 3, (0.25,) * 3)
        for protocol in PROTOCOLS
        for way, times in (("proxy", 0.8), ("gateway", 0.6))
    }


def test_the_bare_envoy_has_a_route_to_each_pod_and_no_filter_but_the_router() -> None:
    found = bare_bootstrap(["127.1.0.1", "127.1.0.2"], {"http": 8000, "grpc": 8001}, {"http": 1, "grpc": 2})[
        "static_resources"
    ]
    assert [
        [endpoint["endpoint"]["address"]["socket_address"]["address"] for endpoint in group["lb_endpoints"]]
        for cluster in found["clusters"]
        for group in cluster["load_assignment"]["endpoints"]
    ] == [["127.1.0.1", "127.1.0.2"]] * 2
    managers = [
        chain["filters"][0]["typed_config"] for listener in found["listeners"] for chain in listener["filter_chains"]
    ]
    assert [[one["name"] for one in manager["http_filters"]] for manager in managers] == [["envoy.filters.http.router"]] * 2


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
