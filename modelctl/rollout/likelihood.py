"""Weigh what was seen of a version: the logarithm of how many times likelier it is of a bad version than of a right one.

These are the ratios of Wald's sequential probability ratio test
(https://en.wikipedia.org/wiki/Sequential_probability_ratio_test). One may look at them after every request and stop at any
time: over a right version the ratio ever reaches 1/x with a probability of at most x, and over a bad one it ever falls to x
with a probability of at most x (Ville's inequality).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, inf, log
from statistics import mean, variance

FEWEST_WINDOWS = 10
"""Of fewer logarithms the variance is too much a matter of luck to be taken for the true one."""
_FEWEST_JOINED = 5
_LEAST_SPREAD = 0.02
"""Latencies that hardly differ have no spread to divide by; what differs by less than 2 % is the clock's."""


def of_share(bad: float, total: float, right: float, wrong: float) -> float:
    """Compare: the share `wrong` of the requests turns out badly, against `right`, which may be none at all."""
    if bad and not right:
        return inf
    return (bad * log(wrong / right) if bad else 0.0) + (total - bad) * log((1 - wrong) / (1 - right))


def above_share(bad: float, total: float, share: float, times: float) -> float:
    """Compare: `times` as many requests as `share` turn out badly, against just that share."""
    return of_share(bad, total, share, times * share)


def above_other(bad: float, total: float, other_bad: float, other_total: float, times: float) -> float:
    """Compare: requests turn out badly `times` as often as at the other version under the same load, against as often.

    Only who had the bad ones counts, so that a disturbance of both, however large, is held against neither.
    """
    if not total or not other_total:
        return 0.0
    share = total / (total + other_total)
    if_bad = times * share / (times * share + 1 - share)
    return bad * log(if_bad / share) + other_bad * log((1 - if_bad) / (1 - share))


def slower(log_ratios: Sequence[float], by: float) -> float:
    """Compare: requests take `by` longer than at the other version (0.2 is a fifth) or more, against as long or less.

    `log_ratios`: of the mean time of a window of requests to that of the other version's in the same window, in their order.
    Load that comes and goes makes windows that follow each other alike, which then tell less than as many that do not: so
    they are weighed one by one, and joined in twos, fours and so on, and what tells least is believed.
    """
    if len(log_ratios) < FEWEST_WINDOWS:
        return 0.0
    weights = []
    joined = list(log_ratios)
    while len(joined) >= _FEWEST_JOINED:
        weights.append(_slower(joined, log(1 + by)))
        joined = [(first + second) / 2 for first, second in pairwise(joined)][::2]
    return min(weights, key=abs)


def _slower(log_ratios: Sequence[float], shift: float) -> float:
    """Compare a mean of `shift` or more with one of 0 or less, both as they fit best to normal logarithms.

    The variance is not known, so that a few of them never tell as much as they would with the one that they show.
    """
    seen, spread = mean(log_ratios), max(variance(log_ratios), _LEAST_SPREAD**2)
    return len(log_ratios) / 2 * log((spread + max(0.0, seen) ** 2) / (spread + max(0.0, shift - seen) ** 2))


def requests_that_clear(share: float, times: float, bound: float) -> int:
    """Return how many requests without a bad one bring `above_share` down to `bound`."""
    return ceil(bound / above_share(0, 1, share, times))
