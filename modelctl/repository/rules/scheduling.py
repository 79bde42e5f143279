"""Check batching and queues: with an unbounded queue, a pod dies under overload.

See docs/facts/triton-server.md#queues and docs/facts/triton-configuration.md#queue-delay.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelDynamicBatching, ModelQueuePolicy

from modelctl.repository.backends import ENGINES, backend_of

_QUEUE_EXAMPLE = "dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: 1000000 } }"


def check(config: ModelConfig) -> Iterator[str]:
    """Yield batch sizes and priorities that the server refuses (fatal)."""
    if config.HasField("dynamic_batching"):
        yield from _preferred_sizes(config.dynamic_batching, config.max_batch_size)
        yield from _priorities(config.dynamic_batching)


def left_open(config: ModelConfig) -> Iterator[str]:
    """Yield queues without a bound, unless the backend accepts all requests at once."""
    if config.HasField("sequence_batching") or backend_of(config) in ENGINES:
        return
    if not config.HasField("dynamic_batching"):
        yield f"dynamic_batching: missing, so the queue grows without bound under overload; write {_QUEUE_EXAMPLE}"
        return
    batching = config.dynamic_batching
    delay = batching.max_queue_delay_microseconds
    if not batching.HasField("default_queue_policy"):
        yield f"dynamic_batching.default_queue_policy: missing, so the queue has no bound; write {_QUEUE_EXAMPLE}"
    else:
        yield from _queue("dynamic_batching.default_queue_policy", batching.default_queue_policy, delay)
    for level in sorted(batching.priority_queue_policy):
        yield from _queue(f"dynamic_batching.priority_queue_policy[{level}]", batching.priority_queue_policy[level], delay)


def _preferred_sizes(batching: ModelDynamicBatching, max_batch_size: int) -> Iterator[str]:
    for size in batching.preferred_batch_size:
        if size < 1:
            yield f"dynamic_batching.preferred_batch_size: {size} is no batch; sizes are 1 to {max_batch_size}"
        elif size > max_batch_size:
            yield (
                f"dynamic_batching.preferred_batch_size: {size} is more than max_batch_size {max_batch_size}; "
                "most models want no preferred size at all"
            )


def _priorities(batching: ModelDynamicBatching) -> Iterator[str]:
    levels, default = batching.priority_levels, batching.default_priority_level
    if levels and not 1 <= default <= levels:
        yield f"dynamic_batching.default_priority_level: {default} is not between 1 and priority_levels {levels}"
    for level in sorted(batching.priority_queue_policy):
        if not 1 <= level <= levels:
            yield (
                f"dynamic_batching.priority_queue_policy: level {level} does not exist; "
                + (f"levels are 1 to {levels}" if levels else "priority_levels is not set")
            )


def _queue(where: str, policy: ModelQueuePolicy, delay: int) -> Iterator[str]:
    """Yield a queue without a bound. Also yield one that rejects a request before its batch can be complete."""
    if policy.max_queue_size == 0:
        yield f"{where}.max_queue_size: 0 means no bound; about what the model answers within its timeout, e.g. 64"
    if policy.default_timeout_microseconds == 0:
        yield (
            f"{where}.default_timeout_microseconds: 0 lets a request wait for ever; "
            "the longest useful wait in microseconds, e.g. 1000000"
        )
    elif policy.timeout_action == ModelQueuePolicy.REJECT and policy.default_timeout_microseconds <= delay:
        yield (
            f"{where}.default_timeout_microseconds: a request that comes alone is refused after "
            f"{policy.default_timeout_microseconds} µs, while it waits for others (max_queue_delay_microseconds: {delay}); "
            "let it wait for longer than that"
        )
