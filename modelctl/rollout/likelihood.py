"""Compute log-likelihood ratios of a bad version against a right one.

These are the ratios of Wald's sequential probability ratio test
(https://en.wikipedia.org/wiki/Sequential_probability_ratio_test). One may look after every request and stop at any time. For
a right version, the ratio ever reaches 1/x with a probability of at most x. For a bad version, it ever falls to x with a
probability of at most x (Ville's inequality).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, inf, log
from statistics import mean, variance

FEWEST_WINDOWS = 10
"""With fewer logarithms, the sample variance is too random to stand for the true variance."""
_FEWEST_JOINED = 5
_LEAST_SPREAD = 0.02
"""Latencies that hardly differ have no spread to divide by. Differences under 2 % come from the clock."""


def of_share(bad: float, total: float, right: float, wrong: float) -> float:
    """Compare: the share `wrong` of the requests is bad, or the share `right`, which may be 0."""
    if bad and not right:
        return inf
    return (bad * log(wrong / right) if bad else 0.0) + (total - bad) * log((1 - wrong) / (1 - right))


def above_share(bad: float, total: float, share: float, times: float) -> float:
    """Compare: `times` as many requests as `share` are bad, or exactly that share."""
    return of_share(bad, total, share, times * share)


def above_other(bad: float, total: float, other_bad: float, other_total: float, times: float) -> float:
    """Compare: requests are bad `times` as often as for the other version, or equally often. Both have the same load.

    Only the split of the bad requests counts, so a disturbance of both versions, however large, counts against neither.
    """
    if not total or not other_total:
        return 0.0
    share = total / (total + other_total)
    if_bad = times * share / (times * share + 1 - share)
    return bad * log(if_bad / share) + other_bad * log((1 - if_bad) / (1 - share))


def slower(log_ratios: Sequence[float], by: float) -> float:
    """Compare: requests take `by` longer than for the other version, or at most as long. A `by` of 0.2 is a fifth.

    `log_ratios`: logarithms of the mean time in a window of requests, divided by the other version's mean time in the same
    window, in order. Varying load makes adjacent windows similar, and similar windows carry less information. So the windows
    are weighed singly and joined in twos, fours and so on, and the weakest result counts.
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
    """Compare a mean of `shift` or more with a mean of 0 or less. Each is fitted to normally distributed logarithms.

    The variance is unknown, so a few samples say less than they would with a known variance.
    """
    seen, spread = mean(log_ratios), max(variance(log_ratios), _LEAST_SPREAD**2)
    return len(log_ratios) / 2 * log((spread + max(0.0, seen) ** 2) / (spread + max(0.0, shift - seen) ** 2))


def requests_that_clear(share: float, times: float, bound: float) -> int:
    """Return how many requests without a bad one bring `above_share` down to `bound`."""
    return ceil(bound / above_share(0, 1, share, times))
