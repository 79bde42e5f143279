"""The SLO gate between canary steps: what the new versions did with their share of the requests.

Read from each pod's own counters. Not seen there are requests that a full queue refused
(docs/facts/triton-metrics.md#refused-requests), so that a canary which is too slow shows in its durations before it
shows in failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelctl.rollout.metrics import Counters, VersionOf

ALLOWED_FAILURES = 0.01
"""Share of the canary's requests that may fail."""

_SLO_SHARE = 0.95


@dataclass(frozen=True)
class Canary:
    """A new version on trial, and the p95 (queue included, ms) that the stack wants of its model."""

    model: str
    version: int
    slo_p95_ms: float


class Tally:
    """The requests of each version since each pod was first looked at: its counters before that, warm-up and golden
    inference among them, do not count, and those of a pod that restarted begin anew.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, VersionOf], Counters] = {}
        self._last: dict[tuple[str, VersionOf], Counters] = {}
        self._closed: dict[VersionOf, Counters] = {}

    def add(self, uid: str, counters: Mapping[VersionOf, Counters]) -> None:
        """Note what the pod counts now."""
        for version, now in counters.items():
            key = (uid, version)
            last = self._last.get(key)
            if last is None or now.finished < last.finished:
                if last is not None:
                    self._closed[version] = self._closed.get(version, Counters()) + last.since(self._first[key])
                self._first[key] = now
            self._last[key] = now

    def of(self, version: VersionOf) -> Counters:
        """Return what all pods together did of this version."""
        total = self._closed.get(version, Counters())
        for key, last in self._last.items():
            if key[1] == version:
                total = total + last.since(self._first[key])
        return total


def breaches(canaries: Iterable[Canary], tally: Tally, requests: int) -> list[str]:
    """Return why a canary must not get more, a sentence each. `requests`: how many are enough to judge the durations by.

    Failures are judged at once when there are more of them than that many requests may have.
    """
    found = []
    for canary in canaries:
        counters = tally.of((canary.model, canary.version))
        name = f"{canary.model} version {canary.version}"
        enough = counters.finished >= requests
        allowed = ALLOWED_FAILURES * max(counters.finished, requests)
        if counters.failure > allowed:
            share = counters.failure / counters.finished
            found.append(
                f"{name}: {counters.failure:.0f} of {counters.finished:.0f} requests failed ({share:.1%}), "
                f"{ALLOWED_FAILURES:.0%} may"
            )
            continue
        if not enough:
            continue
        mean_ms = counters.duration_us / 1000 / counters.success if counters.success else 0.0
        p95_ms = counters.quantile_ms(_SLO_SHARE)
        if p95_ms is not None and p95_ms > canary.slo_p95_ms:
            found.append(f"{name}: p95 is up to {p95_ms:g} ms, sloP95Ms is {canary.slo_p95_ms:g}")
        elif mean_ms > canary.slo_p95_ms:
            found.append(f"{name}: requests take {mean_ms:.1f} ms on average, sloP95Ms is {canary.slo_p95_ms:g}")
    return found


def unjudged(canaries: Iterable[Canary], tally: Tally, requests: int) -> list[str]:
    """Return the canaries that have had too few requests, with how many they have had."""
    counts = [(canary, tally.of((canary.model, canary.version)).finished) for canary in canaries]
    return [
        f"{canary.model} version {canary.version} got {count:.0f} of {requests} requests"
        for canary, count in counts
        if count < requests
    ]
