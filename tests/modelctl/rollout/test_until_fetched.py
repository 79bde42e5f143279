"""A rollout waits until each server's sidecar has the files on the pod's disk. The answers are fake."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

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
STARTED = datetime(2026, 11, 27, 12, tzinfo=UTC)


class NoMetrics(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from ()


@contextlib.contextmanager
def following(answer: Callable[[], bytes]) -> Iterator[Pod]:
    port = free_port()
    with metrics_server.serving(NoMetrics(), "--serve", "127.0.0.1", port, answers={PATH: answer}):
        yield Pod("a", "uid-a", "http://127.0.0.1:1", "", "", follower=f"http://127.0.0.1:{port}")


def state(
    *versions: int, config: str = BOTH, done: int = 0, problem: str | None = None, rollout: datetime = STARTED
) -> bytes:
    models = {"adder": FollowedModel(versions=versions, config=config)}
    return Followed(models=models, done_bytes=done, problem=problem, rollout_started=rollout).model_dump_json().encode()


def wait(pod: Pod, target: Target = TARGET) -> list[str]:
    told: list[str] = []
    Pods(IdleFleet([pod]), LIMITS, lambda: None, told.append).until_fetched_everywhere([target], STARTED)
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
    """It looks far more often than the limit has time for."""
    done = itertools.count()
    with following(lambda: state(1, config=OLD, done=n) if (n := next(done)) < 100 else state(1, 2)) as pod:
        assert wait(pod) == ["a: has fetched adder 1 and 2"]


def test_a_pod_on_which_nothing_arrives_is_told() -> None:
    with following(lambda: state(1, config=OLD, done=7)) as pod, pytest.raises(PodProblem) as failure:
        wait(pod)
    assert str(failure.value).startswith(
        "a: has not fetched adder 1 and 2 after 1 s, and nothing has arrived on any pod for 0.5 s; "
    )


def test_a_pod_that_waits_for_another_one_of_its_node_is_waited_for() -> None:
    asked = itertools.count()
    other: list[int] = []

    def fetches() -> bytes:
        other.append(next(asked))
        return state(1, 2, done=other[-1])

    def waits() -> bytes:
        return state(1, 2) if len(other) == 4 else state(1, config=OLD)

    with following(waits) as pod, following(fetches) as beside:
        fleet = IdleFleet([pod, replace(beside, name="b", uid="uid-b")])
        Pods(fleet, LIMITS, lambda: None, lambda _: None).until_fetched_everywhere([TARGET], STARTED)
    assert len(other) == 5, "at the beginning, three times while a waited, and then for itself"


def test_what_keeps_a_pod_from_it_is_told_at_once() -> None:
    with following(lambda: state(1, problem="the disk is full")) as pod, pytest.raises(PodProblem) as failure:
        wait(pod)
    assert str(failure.value) == "a: does not fetch adder 1 and 2: the disk is full"


def test_what_kept_the_rollout_before_from_a_pod_is_not_told_of_this_one() -> None:
    """A pod reports it until its next look, which comes every few seconds."""
    before = STARTED - timedelta(seconds=1)
    answers = iter([state(1, config=OLD, problem="a file is damaged", rollout=before), state(1, config=OLD), state(1, 2)])
    with following(lambda: next(answers)) as pod:
        assert wait(pod) == ["a: has fetched adder 1 and 2"]


def test_what_keeps_another_release_from_a_pod_is_no_matter_for_the_files_that_are_there() -> None:
    """For example while that release's rollout is undone: otherwise the pod would be restarted for it."""
    with following(lambda: state(1, config=OLD, problem="the disk is full")) as pod:
        assert wait(pod, Target("adder", (1,), "{}", OLD)) == ["a: has fetched adder 1"]


def test_another_program_at_that_port_is_told() -> None:
    with following(lambda: b"hello") as pod, pytest.raises(PodRefuses, match="/live answers with what is no list of models"):
        wait(pod)


def test_a_server_that_reads_the_bucket_itself_is_not_asked() -> None:
    with following(lambda: pytest.fail("it was asked")) as pod:
        assert wait(replace(pod, follower=None)) == []
