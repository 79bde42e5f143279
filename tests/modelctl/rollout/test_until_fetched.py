"""A rollout waits until what is beside each server has the files on the pod's disk. The answers are made here."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from modelctl import metrics_server
from modelctl.rollout.fleet import Pod
from modelctl.rollout.limits import Limits
from modelctl.rollout.pod_client import PodProblem, PodRefuses
from modelctl.rollout.pods import Pods, Target
from modelctl.store.followed import PATH, Followed, FollowedModel, digest
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.worker.site import free_port

OLD, BOTH = digest("1"), digest("1 and 2")
TARGET = Target("adder", (1, 2), "{}", BOTH)
LIMITS = Limits(load=0.5, poll=0.01)


class NoMetrics(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from ()


@contextlib.contextmanager
def following(answer: Callable[[], bytes]) -> Iterator[Pod]:
    port = free_port()
    with metrics_server.serving(NoMetrics(), "--serve", "127.0.0.1", port, answers={PATH: answer}):
        yield Pod("a", "uid-a", "http://127.0.0.1:1", "", "", follower=f"http://127.0.0.1:{port}")


def state(*versions: int, config: str = BOTH, done: int = 0, problem: str | None = None) -> bytes:
    models = {"adder": FollowedModel(versions=versions, config=config)}
    return Followed(models=models, done_bytes=done, problem=problem).model_dump_json().encode()


def wait(pod: Pod, target: Target = TARGET) -> list[str]:
    told: list[str] = []
    Pods(IdleFleet([pod]), LIMITS, lambda: None, told.append).until_fetched_everywhere([target])
    return told


def test_files_and_config_are_waited_for() -> None:
    seen = [state(1, config=OLD), state(1, 2, config=OLD), state(1, 2)]
    answers = iter(seen)
    with following(lambda: next(answers)) as pod:
        assert wait(pod) == ["a: has fetched adder 1 and 2"]
    assert list(answers) == []


def test_a_model_that_is_to_go_is_waited_for() -> None:
    answers = iter([state(1), Followed().model_dump_json().encode()])
    with following(lambda: next(answers)) as pod:
        assert wait(pod, Target("adder", (), "", "")) == ["a: has fetched no adder"]


def test_as_long_as_bytes_arrive_it_may_take_its_time() -> None:
    """Far more looks than the limit has time for."""
    done = itertools.count()
    with following(lambda: state(1, config=OLD, done=n) if (n := next(done)) < 100 else state(1, 2)) as pod:
        assert wait(pod) == ["a: has fetched adder 1 and 2"]


def test_a_pod_on_which_nothing_arrives_is_told() -> None:
    with following(lambda: state(1, config=OLD, done=7)) as pod, pytest.raises(PodProblem) as failure:
        wait(pod)
    assert str(failure.value).startswith("a: has not fetched adder 1 and 2 after 1 s, and nothing has arrived for 0.5 s; ")


def test_what_keeps_a_pod_from_it_is_told_at_once() -> None:
    with following(lambda: state(1, problem="the disk is full")) as pod, pytest.raises(PodProblem) as failure:
        wait(pod)
    assert str(failure.value) == "a: does not fetch adder 1 and 2: the disk is full"


def test_another_program_at_that_port_is_told() -> None:
    with following(lambda: b"hello") as pod, pytest.raises(PodRefuses, match="/live answers with what is no list of models"):
        wait(pod)


def test_a_server_that_reads_the_bucket_itself_is_not_asked() -> None:
    with following(lambda: pytest.fail("it was asked")) as pod:
        assert wait(replace(pod, follower=None)) == []
