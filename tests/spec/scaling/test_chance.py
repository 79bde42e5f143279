"""Random arrivals: the view of one scrape on a queue that is empty a moment later, and of two in a row."""

import random
from collections.abc import Iterator

from spec.prometheus.rule import SCALING_WINDOW_SECONDS, TRITON_SCRAPE_SECONDS
from spec.scaling.behavior import behavior
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import SCALED
from twin.replay.hpa import SYNC_SECONDS, by_average_value

PODS, SERVICE_SECONDS, BUSY = 2, 0.4, 0.5
HOURS = 8


def waiting(source: random.Random) -> Iterator[int]:
    """Yield the queue at each scrape of a pod that answers requests serially, and is busy half of the time."""
    arrives, answered, queue = 0.0, 0.0, list[float]()
    first = source.random() * TRITON_SCRAPE_SECONDS
    for scrape in range(HOURS * 3600 // TRITON_SCRAPE_SECONDS):
        now = first + scrape * TRITON_SCRAPE_SECONDS
        while arrives <= now:
            answered = max(answered, arrives)  # when the server begins it
            queue.append(answered)
            answered += SERVICE_SECONDS
            arrives += source.expovariate(BUSY / SERVICE_SECONDS)
        queue = [begins for begins in queue if begins > now]
        yield len(queue)


def test_the_mean_of_half_a_minute_asks_for_a_pod_by_chance_a_hundredth_as_often_as_one_scrape() -> None:
    source = random.Random(1)  # noqa: S311 - repeatable on purpose
    waits = [sum(of_all) for of_all in zip(*(list(waiting(source)) for _ in range(PODS)), strict=True)]
    held = SCALING_WINDOW_SECONDS // TRITON_SCRAPE_SECONDS
    means = [sum(waits[last - held : last]) / held for last in range(held, len(waits) + 1)]
    once, averaged = (sum(by_average_value(waits, 1, PODS) > PODS for waits in of) for of in (waits, means))
    assert (len(waits), once, averaged) == (5760, 227, 2)


def test_where_each_look_has_one_scrape_two_have_to_agree() -> None:
    window = behavior(settings({**SCALED, "triton.autoscaler": "hpa"}))["scaleUp"]["stabilizationWindowSeconds"]
    assert SYNC_SECONDS < window <= 2 * SYNC_SECONDS, "a look counts with the one before it"
    assert behavior(settings(SCALED))["scaleUp"]["stabilizationWindowSeconds"] == 0
