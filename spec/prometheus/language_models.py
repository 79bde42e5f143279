"""Metrics and alerts of language models, from their backends' own metrics.

Both backends accept every request at once, so Triton's own queue is empty and its instances look idle under any load
(https://github.com/triton-inference-server/vllm_backend/blob/8de0c14/src/model.py#L448). The backends export:

* vLLM: histograms of the times to the first token and to the end, with `REPORT_CUSTOM_METRICS`. It has no count of waiting
or running requests: https://github.com/triton-inference-server/vllm_backend/blob/8de0c14/src/utils/metrics.py#L37-L80. By
Little's law, the seconds that requests took per second are the concurrent requests.
* TensorRT-LLM: `nv_trt_llm_request_metrics` with `active` requests, which include the `waiting` ones:
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
    """Return the language models with an entry in the stack, sorted by name."""
    return {name: wants.llm for name, wants in sorted(settings.models.serving.items()) if wants.llm is not None}


def counted_at_gateway(settings: Settings) -> bool:
    """Return whether Prometheus reads the number of active requests at the gateway.

    A backend's own metrics are late by a whole stream (`longestStreamSeconds`); the gateway's gauge is not.
    """
    return settings.gateway is not None and settings.monitoring is not None


def language_model_groups(settings: Settings) -> list[Group]:
    """Return the rules of a stack's language models; groups without rules if it has none."""
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
    # A request is counted with its full duration when it ends. A shorter window would miss long requests for a while.
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
    """Return the active requests of a model at the gateway, divided equally among its pods.

    The two routes without a model count only if the stack serves one model, because there the request body names the model.
    """
    routes = (model, ALL_MODELS_ROUTE, OPENAI_ROUTE) if len(settings.models.serving) == 1 else (model,)
    pods = series(PENDING, model=model)
    requests = f"sum(avg_over_time({gateway.active(*routes)}[{SCALING_WINDOW_SECONDS}s]))"
    return f"0 * {pods}\n+ on () group_left () ({requests} / count({pods}))"


def _alerts(settings: Settings, model: str, wants: LanguageModel) -> list[Rule]:
    """Return alerts on latencies that users notice. TensorRT-LLM exports neither metric, so its models raise none."""
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
