"""Numbers and alerts of language models, from what their backends export.

Both backends take each request at once, so that Triton's own queue is empty and its instances are idle however much there is
to do (https://github.com/triton-inference-server/vllm_backend/blob/8de0c14/src/model.py#L448). What they export themselves:

* vLLM: histograms of the times to the first token and to the end, with `REPORT_CUSTOM_METRICS`, and no count of what waits
  or runs: https://github.com/triton-inference-server/vllm_backend/blob/8de0c14/src/utils/metrics.py#L37-L80. By Little's
  law, seconds that requests took in a second are requests at a time.
* TensorRT-LLM: `nv_trt_llm_request_metrics` with `active` and, of those, `waiting`:
  https://github.com/triton-inference-server/tensorrtllm_backend/blob/0b9d7d5/README.md#triton-metrics.
"""

from __future__ import annotations

from spec.names import ALL_MODELS_ROUTE, OPENAI_ROUTE
from spec.prometheus import gateway
from spec.prometheus.recording import PENDING
from spec.prometheus.rule import SCALING_WINDOW_SECONDS, TRITON_SCRAPE_SECONDS, Group, Rule, alert, group, record, series
from spec.settings.language_model import LanguageModel
from spec.settings.model import Settings

IN_FLIGHT = "pod_model:triton_requests_in_flight"
WAITING = "pod_model:triton_requests_waiting"
AT_GATEWAY = "pod_model:triton_requests_at_gateway"
_BY = "sum by (namespace, pod, model)"
TIME_TO_FIRST = "vllm:time_to_first_token_seconds"
TIME_BETWEEN = "vllm:time_per_output_token_seconds"
_END = "vllm:e2e_request_latency_seconds"


def language_models(settings: Settings) -> dict[str, LanguageModel]:
    """Return the language models that a stack wants something of, in the order of their names."""
    return {name: wants.llm for name, wants in sorted(settings.models.serving.items()) if wants.llm is not None}


def counted_at_gateway(settings: Settings) -> bool:
    """Return whether Prometheus reads how many requests the gateway has under way.

    What a backend exports is late by a whole stream (`longestStreamSeconds`); the gateway's gauge is not.
    """
    return settings.gateway is not None and settings.monitoring is not None


def language_model_groups(settings: Settings) -> list[Group]:
    """Return the rules of a stack's language models; groups without a rule where it has none."""
    models = language_models(settings)
    return [
        group(
            "triton.language_models.recording",
            [rule for model in models for rule in _recorded(settings, model)],
            interval=f"{TRITON_SCRAPE_SECONDS}s",
        ),
        group(
            "triton.language_models.alerts", [rule for name, one in models.items() for rule in _alerts(settings, name, one)]
        ),
    ]


def percentile(share: float, metric: str, window: str, *matchers: str) -> str:
    """Return a percentile of one of vLLM's histograms, by model, over all pods."""
    rate = f"rate({series(f'{metric}_bucket', *matchers)}[{window}])"
    return f"histogram_quantile({share}, sum by (le, namespace, model) ({rate}))"


def _recorded(settings: Settings, model: str) -> list[Rule]:
    # A request is counted when it ends, for as long as it took: a shorter window would see nothing of long ones for a while.
    seconds = settings.models.serving[model].longest_stream_seconds or 0
    window = f"{max(1, -(-seconds // 60))}m"
    ended, first = (
        f"{_BY} (rate({series(f'{metric}_sum', model=model)}[{span}]))"
        for metric, span in ((_END, window), (TIME_TO_FIRST, "1m"))
    )
    active, waiting = (
        f"{_BY} ({series('nv_trt_llm_request_metrics', model=model, request_type=kind)})" for kind in ("active", "waiting")
    )
    rules = [
        record(IN_FLIGHT, f"{ended}\nor {active}", {"model": model}),
        record(WAITING, f"{first}\nor {waiting}", {"model": model}),
    ]
    if counted_at_gateway(settings):
        rules.append(record(AT_GATEWAY, _at_gateway(settings, model), {"model": model}))
    return rules


def _at_gateway(settings: Settings, model: str) -> str:
    """Return the requests that the gateway has under way for a model, in equal parts for its pods.

    The body of a request names the model on the two routes of no model, so they count only if the stack serves no other.
    """
    routes = (model, ALL_MODELS_ROUTE, OPENAI_ROUTE) if len(settings.models.serving) == 1 else (model,)
    pods = series(PENDING, model=model)
    requests = f"sum(avg_over_time({gateway.active(*routes)}[{SCALING_WINDOW_SECONDS}s]))"
    return f"0 * {pods}\n+ on () group_left () ({requests} / count({pods}))"


def _alerts(settings: Settings, model: str, wants: LanguageModel) -> list[Rule]:
    """Return alerts on the times that people notice. TensorRT-LLM exports neither, and raises none."""
    slo, chosen = settings.models.serving[model].slo_p95_ms, f'model="{model}"'
    limits = [("TritonFirstTokenSlow", TIME_TO_FIRST, slo, "from a request to its first token", "sloP95Ms")]
    if wants.token_p95_ms is not None:
        limits.append(
            ("TritonTokensSlow", TIME_BETWEEN, wants.token_p95_ms, "between two tokens of an answer", "llm.tokenP95Ms")
        )
    return [
        alert(
            name,
            f"{percentile(0.95, metric, '5m', chosen)} * 1000\n> {limit}",
            lasting="10m",
            severity="warning",
            labels={"model": model},
            summary=f"{model}: {{{{ $value | humanize }}}} ms {what}",
            description=f"For 10 minutes, one in twenty took longer than the {limit} ms that the stack wants ({key}): "
            f"{what}, on vLLM's own clock, over all pods.",
        )
        for name, metric, limit, what, key in limits
    ]
