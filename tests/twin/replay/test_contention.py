"""Models that share a GPU and long executions, compared with arithmetic and a GPU simulated by events."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from benchmarks import shared_gpu as shared
from tests.spec.prometheus.test_gpu_load import shared_gpu
from twin.replay.contention import LongServer, server, stretches
from twin.replay.service import Service
from twin.replay.serving import Server
from twin.replay.simulation import Clocks, _Simulation, simulate
from twin.replay.traces import Trace

FAST = Service(instances=1, batch=1, one=0.01, full=0.01, source="", gpus=1)
SLOW = Service(instances=1, batch=1, one=6.0, full=6.0, source="", gpus=1)
ON_CPUS = Service(instances=1, batch=1, one=0.01, full=0.01, source="")


def long(service: Service = SLOW, slo: float = 100.0, timeout: float = 1000.0) -> LongServer:
    made = server(service, slo, timeout, 30)
    assert isinstance(made, LongServer)
    return made


def test_a_request_of_a_second_is_simulated_by_itself_and_a_shorter_one_is_not() -> None:
    second = Service(1, 1, 1.0, 1.0, "")
    assert isinstance(server(second, 10, 10, 30), LongServer)
    assert isinstance(server(FAST, 10, 10, 30), Server)


def test_an_execution_is_counted_when_it_ends_for_as_long_as_it_took() -> None:
    one = long()
    counted = []
    for second in range(14):
        one.second(1.0 if second == 0 else 0.0, stretch=2.0)
        one.scrape(second)
        counted.append((one.target.samples[-1].successes, one.target.samples[-1].seconds))
    assert counted[10:] == [(0, 0), (1, 12), (1, 12), (1, 12)], "6 s of work on half of a GPU"


def test_an_instance_takes_the_next_request_at_once() -> None:
    """1.5 s each, so ten seconds hold six complete executions."""
    one = long(Service(1, 1, 1.5, 1.5, "", 1))
    one.second(10.0, 1.0)
    for _ in range(9):
        one.second(0.0, 1.0)
    one.scrape(10)
    assert one.target.samples[-1].successes == 6
    assert one.target.samples[-1].pending == 3
    assert one.busy == 1


def test_waiting_requests_form_a_batch() -> None:
    one = long(Service(1, 4, 2.0, 5.0, "", 1))
    one.second(5.0, 1.0)
    for _ in range(6):
        one.second(0.0, 1.0)
    one.scrape(7)
    newest = one.target.samples[-1]
    assert (newest.executions, newest.successes, newest.seconds) == (2, 5, 4 * 5 + 2)


def test_answers_are_late_by_the_slo_and_rejected_by_the_timeout() -> None:
    """Of four concurrent requests, the second is answered after 12 s; the others wait longer than 8 s."""
    one = long(slo=10, timeout=8)
    found = [one.second(4.0 if second == 0 else 0.0, 1.0) for second in range(20)]
    assert sum(late for late, _ in found) == 1
    assert sum(rejected for _, rejected in found) == 2


def test_what_executes_on_cpus_stretches_nothing() -> None:
    servers = [Server(ON_CPUS, 1, 1), Server(FAST, 1, 1)]
    servers[0].busy = servers[1].busy = 0.9
    assert stretches([*servers], 1) == [1, 1]


def test_a_short_execution_takes_as_much_longer_as_the_others_are_busy() -> None:
    servers = [Server(FAST, 1, 1), Server(FAST, 1, 1), Server(Service(2, 1, 0.01, 0.01, "", 1), 1, 1)]
    for one, busy in zip(servers, (0.5, 0.2, 0.8), strict=True):
        one.busy = busy
    assert stretches([*servers], 1) == pytest.approx([2.0, 2.3, 2.1]), "of two instances, one does not stretch itself"


def test_long_executions_share_by_how_many_are_under_way() -> None:
    servers = [long() for _ in range(3)]
    for one in servers[:2]:
        one.second(1.0, 1.0)
    assert stretches([*servers], 1) == [2, 2, 3], "the third would find two"


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("models", [2, 6])
def test_short_executions_keep_instances_as_busy_as_on_a_simulated_gpu_or_a_tenth_more(models: int, share: float) -> None:
    found, expected = np.mean(busy_of(FAST, models, share)), np.mean(sum(shared_gpu([share / models] * models, 10_000)[0]))
    assert 0.98 * expected < found < 1.15 * expected


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_long_executions_keep_instances_as_busy_as_on_a_simulated_gpu(share: float) -> None:
    """An execution begins with a second, and sees the others a second late: up to an eighth difference."""
    expected = sum(shared_gpu([share / 6] * 6, 20_000)[0])
    found = [np.mean(busy_of(SLOW, 6, share, seed=seed, seconds=12_000)) for seed in range(4)]
    assert np.mean(found) == pytest.approx(expected, rel=0.12)


def busy_of(service: Service, models: int, share: float, seed: int = 1, seconds: int = 900) -> list[float]:
    """Return the busy instances of each second, for models that together take this share of a GPU."""
    servers = [server(service, 1e9, 1e9, 30) for _ in range(models)]
    arriving = np.random.default_rng(seed).poisson(share / models / service.one, (seconds, models)).tolist()
    busy = []
    for of_second in arriving:
        for one, requests, stretch in zip(servers, of_second, stretches(servers, 1), strict=True):
            one.second(requests, stretch)
        busy.append(sum(one.busy for one in servers))
    return busy[200:]


@pytest.mark.parametrize(("pods", "crowded", "short"), [(3, 0, 0), (2, 120, 0), (1, 120, 120)])
def test_time_above_85_percent_is_of_the_sum_of_the_models_on_the_gpus(pods: int, crowded: int, short: int) -> None:
    """Six models of 0.3 GPUs: 60, 90 and 180 %, while each by itself is 10, 15 and 30 % of a fleet."""
    plan = shared.plan(2.0, 1.8)
    plan = replace(plan, controller=partial(shared.Oracle, pods), fewest=pods)
    trace = Trace("constant", {name: np.full(120, 0.15) for name in shared.names()})
    outcome = simulate(plan, trace, everybody=dict.fromkeys(shared.names(), 0.15), settle_seconds=60)
    assert (outcome.crowded_seconds, sum(outcome.shortages)) == (crowded, short)


def test_whole_requests_go_to_the_pods_in_turn() -> None:
    """One request every two seconds for each model: equal executions in each of three pods, within one."""
    plan = shared.plan(2.0, 1.8)
    fleet = _Simulation(
        plan,
        Trace("constant", {name: np.full(1, 0.5) for name in shared.names()}),
        dict.fromkeys(shared.names(), 1),
        15,
        1,
        Clocks.drawn(1),
    )
    given = [fleet._shares_of(0, requests, 3) for requests in (1, 1, 2, 0, 4)]
    assert given == [[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 0], [1, 2, 1]]
