"""A finished load in a few lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from modelctl.loadgen.result import nearest_rank
from twin.load.record import Moment, Tally
from twin.load.scaling import Scale

_REASONS = 5


def lines(tally: Tally, moments: Sequence[Moment]) -> Iterator[str]:
    """Yield lines with the responses and the changes of the pods."""
    answered, failed = len(tally.answered), tally.failures.total()
    yield f"{answered + failed} requests: {answered} answered, {failed} failed{_latency(tally)}"
    for reason, count in tally.failures.most_common(_REASONS):
        yield f"  {count} failed with {reason}"
    by_pod = {outcome.tag for outcome in tally.answered if outcome.tag is not None}
    if by_pod:
        yield f"pods that answered: {len(by_pod)}"
    seen = [(moment.at, moment.scale) for moment in moments if moment.scale is not None]
    if not seen:
        return
    (_, first), (end, last) = seen[0], seen[-1]
    most = max(scale.ready for _, scale in seen)
    yield f"ready pods: {first.ready} at first, {most} at most, {last.ready} at the end ({end:.0f} s)"
    for at, scale in _changes(moments):
        yield f"  {at:>5.0f} s  wanted {scale.wanted}, ready {scale.ready}"
    starts = _starts(seen)
    nodes = [scale.nodes.ready for _, scale in seen if scale.nodes is not None]
    if starts:
        # For a pod that waits for a node, this includes the node's start.
        of = "" if nodes else " (startSeconds of the stack)"
        yield f"from wanted to ready: {', '.join(f'{seconds:.0f} s' for seconds in starts)}{of}"
    if nodes:
        yield f"ready nodes: {nodes[0]} at first, {max(nodes)} at most, {nodes[-1]} at the end"


def _changes(moments: Sequence[Moment]) -> Iterator[tuple[float, Scale]]:
    before: tuple[int, int] | None = None
    for moment in moments:
        if moment.scale is None:
            continue
        now = (moment.scale.wanted, moment.scale.ready)
        if before is not None and now != before:
            yield moment.at, moment.scale
        before = now


def _starts(seen: Sequence[tuple[float, Scale]]) -> list[float]:
    """Return the seconds from wanted to ready of each additional pod, in order, without pods that never became ready."""
    starts: list[float] = []
    waiting: deque[float] = deque()
    _, before = seen[0]
    for at, scale in seen[1:]:
        waiting.extend([at] * (scale.wanted - before.wanted))
        for _ in range(min(scale.ready - before.ready, len(waiting))):
            starts.append(at - waiting.popleft())
        for _ in range(min(before.wanted - scale.wanted, len(waiting))):
            waiting.pop()
        before = scale
    return starts


def _latency(tally: Tally) -> str:
    if not tally.answered:
        return ""
    latencies = [outcome.latency_ms for outcome in tally.answered]
    return f"; p50 {nearest_rank(latencies, 50):.0f} ms, p95 {nearest_rank(latencies, 95):.0f} ms"
