"""The row about language models in the inference dashboard: latencies that users notice, from vLLM's own metrics."""

from __future__ import annotations

from infra.platform.dashboards.board import WINDOW, Query, Row, timeseries
from spec.prometheus.language_models import IN_FLIGHT, TIME_BETWEEN, TIME_TO_FIRST, WAITING, percentile
from spec.prometheus.rule import series

_CHOSEN = 'model=~"$model"'


def language_models_row() -> Row:
    """Return the row."""
    return Row(
        "Language models",
        [
            _times(
                "Time to first token",
                "From a request to its first token, waiting included. TensorRT-LLM exports none.",
                TIME_TO_FIRST,
            ),
            _times("Time per token", "Between two tokens of an answer. TensorRT-LLM exports none.", TIME_BETWEEN),
            timeseries(
                "Tokens",
                "Generated, and read as prompts, per second. TensorRT-LLM exports none.",
                "short",
                *(
                    Query(
                        f"sum by (model) (rate({series(f'vllm:{kind}_tokens_total', _CHOSEN)}[{WINDOW}]))",
                        f"{{{{model}}}} {name}",
                    )
                    for kind, name in (("generation", "generated"), ("prompt", "prompts"))
                ),
            ),
            timeseries(
                "Requests at a time",
                "What pods are scaled on. Of vLLM by Little's law, from requests that had a first token, or ended; of "
                "TensorRT-LLM as it counts them.",
                "short",
                Query(f"sum by (model) ({series(IN_FLIGHT, _CHOSEN)})", "{{model}} in flight"),
                Query(f"sum by (model) ({series(WAITING, _CHOSEN)})", "{{model}} waiting"),
            ),
        ],
    )


def _times(title: str, description: str, metric: str) -> dict[str, object]:
    return timeseries(
        title,
        description,
        "s",
        *(
            Query(percentile(share, metric, WINDOW, _CHOSEN), f"{{{{model}}}} {name}")
            for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
        ),
    )
