"""Requests that come by chance: what one scrape sees of a queue that is empty a moment later, and what two in a row see."""

import random
from collections.abc import Iterator
from itertools import pairwise

from spec.prometheus.rule import SCRAPE_SECONDS
from spec.scaling.behavior import behavior
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import SCALED
from twin.replay.hpa import SYNC_SECONDS, by_average_value

PODS, SERVICE_SECONDS, BUSY = 2, 0.4, 0.5
HOURS = 8


def waiting(source: random.Random) -> Iterator[int]:
    """Yield the queue at each scrape of a pod that answers requests one by one, and is busy half of the time."""
    arrives, answered, queue = 0.0, 0.0, list[float]()
    first = source.random() * SCRAPE_SECONDS
    for scrape in range(HOURS * 3600 // SCRAPE_SECONDS):
        now = first + scrape * SCRAPE_SECONDS
        while arrives <= now:
            answered = max(answered, arrives)  # when the server begins with it
            queue.append(answered)
            answered += SERVICE_SECONDS
            arrives += source.expovariate(BUSY / SERVICE_SECONDS)
        queue = [begins for begins in queue if begins > now]
        yield len(queue)


def test_two_looks_in_a_row_ask_for_a_pod_by_chance_a_tenth_as_often_as_one() -> None:
    source = random.Random(1)  # noqa: S311 - repeatable on purpose
    pods = [list(waiting(source)) for _ in range(PODS)]
    asks = [by_average_value(sum(of_all), 1, PODS) > PODS for of_all in zip(*pods, strict=True)]
    once, twice = sum(asks), sum(one and other for one, other in pairwise(asks))
    assert (len(asks), once, twice) == (1920, 80, 5)
    window = behavior(settings(SCALED))["scaleUp"]["stabilizationWindowSeconds"]
    assert SYNC_SECONDS < window <= 2 * SYNC_SECONDS, "a look counts with the one before it"
