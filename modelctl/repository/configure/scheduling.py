"""Configure the queue of a model: dynamic batching with a bound, or sequence batching."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelQueuePolicy

from modelctl.repository.configure import derive
from spec.settings import ModelServing, Sequence


def fill(config: ModelConfig, wants: ModelServing) -> Iterator[str]:
    """Set the scheduler of `config`, whose max_batch_size is final; yield the obstacles."""
    if wants.sequence is not None:
        yield from _sequences(config, wants, wants.sequence)
    elif config.HasField("sequence_batching"):
        yield (
            "sequence: missing, but config.pbtxt has sequence_batching: requests of one sequence must reach the same "
            "instance; write sequence: {strategy: direct} or {strategy: oldest}"
        )
    else:
        _dynamic(config, wants)


def _dynamic(config: ModelConfig, wants: ModelServing) -> None:
    written = config.dynamic_batching
    preserve_ordering = written.preserve_ordering
    allow_timeout_override = written.default_queue_policy.allow_timeout_override
    config.ClearField("dynamic_batching")
    batching = config.dynamic_batching
    batching.SetInParent()
    batching.preserve_ordering = preserve_ordering
    batching.max_queue_delay_microseconds = _delay(config, wants)
    levels = wants.priorities.levels if wants.priorities is not None else 1
    timeout = wants.queue_timeout_us
    size = derive.queue_size(wants.peak_rate, timeout, config.max_batch_size, derive.instances(wants), levels)
    policy = ModelQueuePolicy(
        timeout_action=ModelQueuePolicy.REJECT,
        default_timeout_microseconds=timeout,
        allow_timeout_override=allow_timeout_override,
        max_queue_size=size,
    )
    batching.default_queue_policy.CopyFrom(policy)
    if wants.priorities is not None:
        batching.priority_levels = wants.priorities.levels
        batching.default_priority_level = wants.priorities.default
        for level in range(1, wants.priorities.levels + 1):
            batching.priority_queue_policy[level].CopyFrom(policy)


def _sequences(config: ModelConfig, wants: ModelServing, sequence: Sequence) -> Iterator[str]:
    batching = config.sequence_batching
    # If the server keeps the state and initializes it, the model needs no control inputs.
    is_kept = batching.state and all(state.initial_state for state in batching.state)
    if not batching.control_input and not is_kept:
        yield (
            "sequence: config.pbtxt declares no control inputs, so the model would not learn where a sequence starts and "
            "ends; write sequence_batching { control_input [ … ] } there, with CONTROL_SEQUENCE_START at least"
        )
        return
    batching.max_sequence_idle_microseconds = sequence.max_idle_ms * derive.US_PER_MS
    if sequence.strategy == "direct":
        batching.direct.SetInParent()
        return
    oldest = batching.oldest
    oldest.max_candidate_sequences = sequence.max_candidates or derive.candidate_sequences(config.max_batch_size)
    oldest.max_queue_delay_microseconds = _delay(config, wants)
    del oldest.preferred_batch_size[:]


def _delay(config: ModelConfig, wants: ModelServing) -> int:
    if wants.max_queue_delay_us is not None:
        return wants.max_queue_delay_us
    return derive.queue_delay_us(wants.slo_p95_ms, wants.expected_rate, config.max_batch_size)
