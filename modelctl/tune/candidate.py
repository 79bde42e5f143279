"""The search space: batch size, delay and instances of a model, and their Triton config."""

from __future__ import annotations

from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

DELAYS_US = (0, 100, 250, 500, 1000)
"""A longer wait for a batch only adds latency. A batch fills anyway while an instance is busy.

See docs/facts/triton-configuration.md#queue-delay.
"""


@dataclass(frozen=True)
class Candidate:
    """The values that a stack sets.

    `max_batch_size` 1 means no batching; 0 is a model without a batch dimension.
    """

    max_batch_size: int
    max_queue_delay_us: int
    instances: int

    @property
    def cost(self) -> tuple[int, int, int]:
        """Return a sort key, smaller for cheaper candidates.

        Instances cost memory, a delay costs latency, a large batch costs a little of both.
        """
        return self.instances, self.max_queue_delay_us, self.max_batch_size

    def __str__(self) -> str:
        instances = f"{self.instances} instance" + ("s" if self.instances > 1 else "")
        if self.max_batch_size <= 1:
            return f"no batching, {instances}"
        return f"batch {self.max_batch_size}, delay {self.max_queue_delay_us} µs, {instances}"


@dataclass(frozen=True)
class Space:
    """The values to try."""

    batch_sizes: tuple[int, ...]
    delays_us: tuple[int, ...]
    instances: tuple[int, ...]

    @classmethod
    def of(cls, config: ModelConfig, max_instances: int) -> Space:
        """Return the values to try for a model.

        Batch sizes are powers of two up to the limit in config.pbtxt, because the model may not support larger ones.
        """
        largest = config.max_batch_size
        sizes = {1 << power for power in range(largest.bit_length())} | {largest} if largest else {0}
        # With strategy direct, the server's default, each sequence has its own slot and never waits.
        direct = config.HasField("sequence_batching") and not config.sequence_batching.HasField("oldest")
        waits = largest > 1 and not direct
        delays = DELAYS_US if waits else (0,)
        return cls(tuple(sorted(sizes)), delays, tuple(range(1, max_instances + 1)))

    @property
    def first(self) -> Candidate:
        """Return the cheapest candidate: no batching, one instance."""
        return Candidate(self.batch_sizes[0], 0, 1)

    def prior(self) -> list[Candidate]:
        """Return the first candidates: no batching, batching without delay, each also with all instances, and the middle
        batch size."""
        smallest, largest, most = self.batch_sizes[0], self.batch_sizes[-1], self.instances[-1]
        middle = self.batch_sizes[len(self.batch_sizes) // 2]
        pairs = [(smallest, 1), (largest, 1), (smallest, most), (largest, most), (middle, 1)]
        return list(dict.fromkeys(Candidate(size, 0, instances) for size, instances in pairs))

    def candidate(self, batch_size: int, delay_us: int, instances: int) -> Candidate:
        """Return the candidate with these values; without batching the delay is 0."""
        return Candidate(batch_size, delay_us if batch_size > 1 else 0, instances)

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        """Return similar candidates. The order is: without a delay, one instance or batch size step less, one more."""
        size, delay, instances = candidate.max_batch_size, candidate.max_queue_delay_us, candidate.instances
        at = self.batch_sizes.index(size)
        steps = [(at, instances - 1), (at - 1, instances), (at, instances + 1), (at + 1, instances)]
        found = [self.candidate(size, 0, instances)] if delay else []
        for position, count in steps:
            if 0 <= position < len(self.batch_sizes) and count in self.instances:
                found.append(self.candidate(self.batch_sizes[position], delay, count))
        return found

    @property
    def size(self) -> int:
        """Return the number of different candidates."""
        batching = sum(size > 1 for size in self.batch_sizes)
        return (batching * len(self.delays_us) + len(self.batch_sizes) - batching) * len(self.instances)


def configured(base: ModelConfig, candidate: Candidate) -> ModelConfig:
    """Return a complete config with the candidate's values, because the load API replaces a config entirely.

    See docs/facts/triton-server.md#load-with-config.
    """
    config = ModelConfig()
    config.CopyFrom(base)
    config.max_batch_size = candidate.max_batch_size
    if config.HasField("sequence_batching"):
        if config.sequence_batching.HasField("oldest"):
            config.sequence_batching.oldest.max_queue_delay_microseconds = candidate.max_queue_delay_us
            del config.sequence_batching.oldest.preferred_batch_size[:]
    elif candidate.max_batch_size <= 1:  # with a dynamic batcher, server 2.51 stalls such a model (docs/serving.md)
        config.ClearField("dynamic_batching")
    else:
        config.dynamic_batching.max_queue_delay_microseconds = candidate.max_queue_delay_us
        del config.dynamic_batching.preferred_batch_size[:]
    if not config.instance_group:
        config.instance_group.add(kind=ModelInstanceGroup.KIND_AUTO)
    del config.instance_group[1:]
    config.instance_group[0].count = candidate.instances
    config.ClearField("response_cache")  # the requests of a load are identical
    # A sample larger than max_batch_size is fatal: docs/facts/triton-configuration.md#text-of-configpbtxt.
    for sample in config.model_warmup:
        sample.batch_size = min(sample.batch_size, candidate.max_batch_size)
    return config
