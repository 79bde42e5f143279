"""Check response caches: the server refuses some when it loads the model."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelConfig


def check(config: ModelConfig) -> Iterator[str]:
    """Yield a response cache of a decoupled model, or of a model with sequences (fatal).

    Their answers depend on more than the request. See
    https://github.com/triton-inference-server/server/blob/v2.71.0/docs/user_guide/response_cache.md#limitations.
    """
    if not config.response_cache.enable:
        return
    if config.model_transaction_policy.decoupled:
        yield "response_cache: a decoupled model is not cached, and the server does not load it; leave one of the two out"
    if config.HasField("sequence_batching"):
        yield "response_cache: the sequence batcher does not cache; leave one of the two out"
