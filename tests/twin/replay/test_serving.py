"""The model of a server: its answers, late answers and counters."""

import pytest

from stackctl.cost.throughput import Measured
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, SCALED
from twin.replay.service import Service, service_of
from twin.replay.serving import Server

MEASURED_POD = Service(instances=1, batch=4, one=0.2, full=0.2, source="measured")
"""docs/facts/triton-metrics.md#measured-pod"""


@pytest.mark.parametrize(
    ("rate", "executions", "busy"),
    [(0, 0, 0), (2, 1.869, 0.374), (5, 3.655, 0.731), (10, 4.683, 0.937), (20, 5, 1)],
    ids=lambda value: f"{value:g}",
)
def test_the_measured_pod_is_busy_nearly_all_the_time_long_before_it_is_full(
    rate: float, executions: float, busy: float
) -> None:
    assert MEASURED_POD.capacity == 20
    steady = MEASURED_POD.steady(rate)
    assert (steady.executions, steady.executions * steady.batch_seconds) == pytest.approx((executions, busy), abs=1e-3)


@pytest.mark.parametrize(("rate", "busy"), [(4.8, 0.60), (4.9, 0.62), (5.1, 0.64)])
def test_a_pod_that_requests_by_chance_come_to_is_as_busy_as_a_recorded_one(rate: float, busy: float) -> None:
    """keda-rises.json, 150 to 190 s: 0.58 to 0.65 of four pods, each at 4.8 to 5.1 requests/s."""
    steady = Service(instances=1, batch=8, one=0.155, full=0.19, source="").steady(rate)
    assert steady.executions * steady.batch_seconds == pytest.approx(busy, abs=0.03)


@pytest.mark.parametrize("rate", [1, 30, 60, 100, 150, 160])
def test_batches_grow_with_the_rate_and_never_beyond_the_largest(rate: float) -> None:
    service = Service(instances=2, batch=8, one=0.02, full=0.1, source="")
    steady = service.steady(rate)
    assert 1 <= rate / steady.executions <= 8 + 1e-9
    assert 0.02 <= steady.batch_seconds <= 0.1 + 1e-9
    assert steady.executions * steady.batch_seconds <= 2 + 1e-9


def test_a_slow_pod_answers_less() -> None:
    assert MEASURED_POD.slowed(4).capacity == 5


def run(server: Server, rate: float, seconds: int) -> tuple[float, float]:
    answers = [server.second(rate) for _ in range(seconds)]
    return sum(late for late, _ in answers), sum(rejected for _, rejected in answers)


def test_below_its_capacity_a_server_is_late_only_where_a_batch_and_the_one_before_it_exceed_the_slo() -> None:
    assert run(Server(MEASURED_POD, 0.4, 1.0), 15, 60) == (0, 0)
    late, _ = run(Server(MEASURED_POD, 0.3, 1.0), 15, 60)
    share = MEASURED_POD.steady(15).share
    assert late == pytest.approx(15 * 60 * share / 2), "half of those that wait do so for more than half a batch"
    assert share == pytest.approx(0.984, abs=1e-3)
    assert run(Server(MEASURED_POD, 0.1, 1.0), 15, 60)[0] == pytest.approx(15 * 60)


def test_an_overload_waits_until_the_timeout_and_is_then_rejected() -> None:
    server = Server(MEASURED_POD, 0.5, timeout_seconds=1.5)
    late, rejected = run(server, 30, 60)
    assert server.queue == pytest.approx(20 * 1.5)
    assert rejected == pytest.approx(60 * 10 - 30), "what the queue does not hold"
    assert late > 0.9 * 60 * 20
    assert run(server, 0, 2) == (0, 0)
    assert server.queue == 0


def test_where_the_queue_holds_nothing_that_is_too_late_an_overload_answers_what_it_can_in_time() -> None:
    """200 ms of a batch after at most 300 ms of waiting: the SLO. Of 30 requests/s 20 are answered, none of them late."""
    server = Server(MEASURED_POD, 0.5, timeout_seconds=0.3)
    late, rejected = run(server, 30, 60)
    assert (late, rejected) == (0, pytest.approx(60 * 10 - 20 * 0.3))
    longer = Server(MEASURED_POD, 0.5, timeout_seconds=0.5)
    assert run(longer, 30, 60)[0] > 0.9 * 60 * 20


def test_what_is_rejected_is_scraped() -> None:
    server = Server(MEASURED_POD, 0.5, timeout_seconds=0.3)
    for second in range(60):
        server.second(30)
        if second % 5 == 4:
            server.scrape(second)
    assert server.target.busy(60) == pytest.approx(1)
    assert server.target.needed(60) == pytest.approx(1.5), "half as many again as one instance answers"
    assert server.target.asked(60) == pytest.approx(30)


def test_what_prometheus_scrapes_is_what_was_answered() -> None:
    server = Server(MEASURED_POD, 0.5, timeout_seconds=1.5)
    run(server, 10, 30)
    server.scrape(30)
    run(server, 30, 30)
    server.scrape(60)
    first, second = server.target.samples
    assert (first.successes, first.executions, first.seconds) == pytest.approx((300, 30 * 4.683, 60), rel=1e-3)
    assert (second.successes - first.successes, second.executions - first.executions) == pytest.approx((600, 150))
    assert second.pending == pytest.approx(30 + 20 * 0.1), "the queue, and what comes during half a batch"
    assert first.pending == pytest.approx(10 * 0.1 * MEASURED_POD.steady(10).share)


WANTS = {**CLASSIFY, "instances": 2, "maxBatchSize": 16}


@pytest.mark.parametrize(
    ("measured", "given", "expected"),
    [
        pytest.param(None, None, (2, 16, 0.0125, 0.025, "assumed"), id="half of the SLO of 50 ms for a full batch"),
        pytest.param(None, (4.0, 20.0), (2, 16, 0.004, 0.02, "given"), id="given"),
        pytest.param(Measured(400, "here", 6), None, (2, 5, 0.006, 0.025, "measured: here"), id="tuned"),
        pytest.param(Measured(40, "here", 6), None, (2, 1, 0.05, 0.05, "measured: here"), id="tuned, without batches"),
        pytest.param(Measured(800, "here", 1), None, (2, 10, 0.0025, 0.025, "measured: here"), id="tuned, alone on its way"),
        pytest.param(Measured(400, "here"), (4.0, 20.0), (2, 16, 0.004, 0.02, "given"), id="given goes first"),
    ],
)
def test_where_service_times_are_from(
    measured: Measured | None, given: tuple[float, float] | None, expected: tuple[float, float, float, float, str]
) -> None:
    read = settings({**SCALED, "models.serving": {"classify": WANTS}})
    found = service_of(read, "classify", read.models.serving["classify"], measured, given)
    assert (found.instances, found.batch, found.one, found.full, found.source) == pytest.approx(expected)
    if measured is not None and given is None:
        assert found.capacity == pytest.approx(measured.rate)
