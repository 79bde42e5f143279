"""A load from its beginning until its additional pods are removed."""

import asyncio
from collections.abc import Callable

import pytest

from tests.modelctl.loadgen.virtual_time import run_virtually
from twin.load.record import Moment
from twin.load.scaling import Scale
from twin.load.watch import watch


class Shown:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.moments: list[Moment] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, moment: Moment) -> None:
        self.moments.append(moment)


class Load:
    """Lasts some seconds, and then may fail."""

    def __init__(self, seconds: float, failure: Exception | None = None) -> None:
        self._seconds = seconds
        self._failure = failure
        self.ended = False

    async def run(self) -> None:
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.ended = True
        if self._failure is not None:
            raise self._failure

    async def moment(self, at: float, scale: Scale | None) -> Moment:
        return Moment(at, 0, 0, 0, None, scale)


def pods(ready: int, *, fewest: int = 1, return_seconds: float | None = 900.0) -> Scale:
    return Scale(ready, ready, 0, 0, fewest, return_seconds=return_seconds)


def watched(load: Load, at: Callable[[float], Scale | None], shown: Shown, follow: float | None = None) -> list[Moment]:
    async def check() -> list[Moment]:
        loop = asyncio.get_running_loop()

        async def look() -> Scale | None:
            return at(loop.time())

        return await watch(load, look, shown, asyncio.Event(), follow)

    return run_virtually(check())


def test_there_is_a_moment_a_second_until_the_pods_are_as_few_as_before() -> None:
    shown = Shown()
    moments = watched(Load(9.5), lambda now: pods(3 if 4 <= now < 30 else 1), shown)
    assert [moment.at for moment in moments] == list(range(31))
    assert moments == shown.moments
    assert shown.said == ["the load is over; following the pods until there is 1 again, for at most 900 s (Ctrl-C ends it)"]


def test_pods_that_do_not_go_are_followed_no_longer_than_the_autoscaler_may_take() -> None:
    moments = watched(Load(9.5), lambda now: pods(3, return_seconds=60), Shown())
    assert moments[-1].at == 10 + 60


@pytest.mark.parametrize(("follow", "end"), [(0.0, 10), (20.0, 30)])
def test_or_as_long_as_somebody_wants_to_wait(follow: float, end: float) -> None:
    assert watched(Load(9.5), lambda now: pods(3), Shown(), follow)[-1].at == end


def test_where_nothing_scales_the_end_of_the_load_is_the_end() -> None:
    assert watched(Load(9.5), lambda now: pods(1, return_seconds=None), Shown())[-1].at == 10


def test_a_cluster_that_does_not_answer_does_not_end_the_load() -> None:
    assert watched(Load(9.5), lambda now: None, Shown())[-1].at == 10


def test_who_stops_it_gets_what_there_was_and_the_load_ends_too() -> None:
    load = Load(1000)

    async def check() -> list[Moment]:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(4.5, stop.set)

        async def look() -> Scale | None:
            return pods(1)

        return await watch(load, look, Shown(), stop)

    assert len(run_virtually(check())) == 6
    assert load.ended


def test_a_load_that_cannot_be_sent_says_why() -> None:
    with pytest.raises(ValueError, match="no pod"):
        watched(Load(0, ValueError("no pod")), lambda now: pods(1), Shown())
