"""The requirements of a language model: `llm` of a model in `triton-eks:models.serving`."""

import math
from typing import Annotated, ClassVar

from pydantic import Field

from spec.settings.kind import between
from spec.settings.section import Section

_MIB = 1024**2


class LanguageModel(Section):
    """A language model of the vLLM or TensorRT-LLM backend: the concurrent generation and the GPU memory for it."""

    guide: ClassVar[str] = "docs/language-models.md"

    concurrent_streams: Annotated[int, between(1, 4096, "requests")] = Field(
        description="the most requests that a pod generates answers to at a time, like 32; pods are scaled on it"
    )
    context_tokens: Annotated[int, between(16, 10_000_000, "tokens")] = Field(
        description="the most tokens of a request, prompt and answer together, like 8192"
    )
    weights_mib: Annotated[int, between(1, 16_777_216, "MiB")] = Field(
        description="memory of the weights in MiB, on all GPUs of the model together, like 15300"
    )
    kv_bytes_per_token: Annotated[int, between(1, 100_000_000, "bytes")] = Field(
        description="bytes that a token takes in the key-value cache, like 131072: 2 x layers x key-value heads x size of a "
        "head x bytes of a number"
    )
    gpus: Annotated[int, between(1, 8, "GPUs")] = Field(
        default=1,
        description="the GPUs of a pod that the model is split over: tensor_parallel_size x pipeline_parallel_size",
    )
    token_p95_ms: Annotated[int, between(1, 60_000, "ms")] | None = Field(
        default=None,
        description="the time in ms between two tokens of an answer that 95 % are within, like 50; without it: no alert",
    )

    @property
    def cache_mib(self) -> int:
        """Return the MiB of the key-value cache on all GPUs together, when every stream uses its full context."""
        return math.ceil(self.concurrent_streams * self.context_tokens * self.kv_bytes_per_token / _MIB)

    @property
    def needed_mib(self) -> int:
        """Return the memory in MiB that weights and cache need on each GPU, split evenly."""
        return math.ceil((self.weights_mib + self.cache_mib) / self.gpus)
