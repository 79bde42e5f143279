"""The dashboard of the models: requests, failures, latencies and where the time goes."""

from __future__ import annotations

from infra.platform.dashboards.board import (
    WINDOW,
    Dashboard,
    Panel,
    Query,
    Row,
    choice,
    dashboard,
    number,
    table,
    timeseries,
)
from infra.platform.dashboards.language_models import language_models_row
from spec import objectives
from spec.names import TRITON_CONTAINER
from spec.prometheus import gateway, gateway_slo
from spec.prometheus.gpu_load import GPU_LOAD, shares_gpus
from spec.prometheus.language_models import language_models
from spec.prometheus.recording import BUSY, CONCURRENCY, PENDING, QUEUE_LENGTH
from spec.prometheus.rule import JOB, pods_of, series
from spec.scaling.signal import GPU_LOAD_SHARE
from spec.settings.model import Settings
from spec.settings.relations.triton import instances_per_pod

_CHOSEN = 'model=~"$model"'
_HISTOGRAM = "nv_inference_first_response_histogram_ms"
_ENSEMBLES = "The steps of an ensemble are models too: choose either it or them for a total."


def inference(settings: Settings) -> Dashboard:
    """Return the dashboard of a stack's models."""
    rows = [_overview(), _requests(settings), _latency(settings), _queues(), _batches(settings), _pods(settings)]
    if settings.triton.response_cache_mib is not None:
        rows.insert(-1, _cache())
    if language_models(settings):
        rows.insert(2, language_models_row())
    if settings.gateway is not None:
        rows.insert(2, _gateway(settings))
    return dashboard(
        "triton-inference",
        "Triton: inference",
        "Requests, failures, latency, queues and batches per model. " + _ENSEMBLES,
        rows,
        [choice("model", "Model", f"label_values({series('nv_inference_pending_request_count')}, model)")],
    )


def _overview() -> Row:
    success, failure = _rate("nv_inference_request_success", ""), _rate("nv_inference_request_failure", "")
    return Row(
        "Now",
        [
            number("Requests", f"Successful and failed, all chosen models. {_ENSEMBLES}", "reqps", f"{success} + {failure}"),
            number(
                "Failed",
                "Share of the requests. Those that a full queue turned away are counted nowhere by Triton.",
                "percentunit",
                f"{failure} / (({success} + {failure}) > 0)",
                bad_above=1 - objectives.AVAILABILITY,
            ),
            number("Waiting", "Requests in the queues of the chosen models.", "short", f"sum({_of(PENDING)})"),
            number("Pods", "Pods of Triton that Prometheus reaches.", "short", f"count({series('up', job=JOB)} == 1)"),
        ],
    )


def _requests(settings: Settings) -> Row:
    panels = [
        timeseries(
            "Requests",
            f"Answered per second. {_ENSEMBLES}",
            "reqps",
            Query(_rate("nv_inference_request_success", "model"), "{{model}}"),
        ),
        timeseries(
            "Failures by reason",
            "REJECTED: waited longer in the queue than its policy lets it. BACKEND: the model failed. CANCELED: the client "
            "went away. Requests that find the queue full, or whose inputs are wrong, are in none of them.",
            "reqps",
            Query(_rate("nv_inference_request_failure", "model, reason"), "{{model}} {{reason}}"),
        ),
    ]
    if settings.models.serving:
        panels.append(
            timeseries(
                "Error budget",
                "Share of failed requests over an hour, and what the availability objective allows.",
                "percentunit",
                Query(f"max by (model) ({_of('model:triton_request_failures:ratio_1h')})", "{{model}}"),
                Query(f"vector({1 - objectives.AVAILABILITY:.4g})", "allowed"),
            )
        )
    return Row("Requests", panels)


def _gateway(settings: Settings) -> Row:
    retries, refused = (
        f"rate({gateway.of_routes(f'envoy_cluster_upstream_rq_retry{kind}')}[{WINDOW}])" for kind in ("", "_overflow")
    )
    budgets = [_gateway_budgets()] if gateway_slo.objectives_ms(settings) else []
    return Row(
        "Gateway",
        [
            *budgets,
            timeseries(
                "Errors",
                "Full queues too, which Triton does not count. http: the share of what Triton's pods answer to Envoy that "
                "is a 5xx, before a retry. grpc: the share of calls of ModelInfer that end as UNAVAILABLE, after retries.",
                "percentunit",
                Query(gateway.failing(WINDOW), "{{route}} {{protocol}}"),
            ),
            timeseries(
                "Retries",
                "Sent again to another pod; kept back: more than the budget of a fifth of the requests.",
                "reqps",
                Query(gateway.by_route(retries), "{{route}} {{protocol}} sent"),
                Query(gateway.by_route(refused), "{{route}} {{protocol}} kept back"),
            ),
        ],
    )


def _gateway_budgets() -> Panel:
    failed = f"{series(f'{gateway_slo.BAD_RATIO}1h')} / {1 - objectives.AVAILABILITY:g}"
    late = f"{series(f'{gateway_slo.LATE_RATIO}1h')} / {1 - objectives.LATENCY:g}"
    return timeseries(
        "Error budget",
        "How many times as fast as allowed the month's budget burns, over an hour. All requests count, refused ones "
        "too. TritonGatewayAvailabilityBudgetBurn and TritonGatewayLatencyBudgetBurn page at 14.4.",
        "short",
        Query(failed, "{{model}} failed"),
        Query(late, "{{model}} late"),
    )


def _latency(settings: Settings) -> Row:
    by_bucket = f"sum by (le, model) (rate({_of(f'{_HISTOGRAM}_bucket')}[{WINDOW}]))"
    panels = [
        timeseries(
            "Percentiles",
            "Until the first response, over all pods, as exact as the buckets of the model's histogram. Models without "
            "latencyHistogram have none.",
            "ms",
            *(
                Query(f"histogram_quantile({share}, {by_bucket})", f"{{{{model}}}} {name}")
                for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
            ),
        )
    ]
    tail = any(want.slo_p99_ms is not None for want in settings.models.serving.values())
    if any(want.latency_histogram for want in settings.models.serving.values()):
        panels.append(
            timeseries(
                "Slower than the SLO",
                "Share of the responses of an hour that came later than the model's sloP95Ms, and what the SLO allows."
                + (" The same of p99 and sloP99Ms." if tail else ""),
                "percentunit",
                Query(f"max by (model) ({_of('model:triton_slow_responses:ratio_1h')})", "{{model}}"),
                Query(f"vector({1 - objectives.LATENCY:.4g})", "allowed"),
                *(_slow_tails() if tail else ()),
            )
        )
    panels.append(
        timeseries(
            "Time per request",
            "Where the mean request spends its time on the server.",
            "µs",
            *(
                Query(_per_request(f"nv_inference_{part}_duration_us"), f"{{{{model}}}} {name}")
                for part, name in (
                    ("queue", "queue"),
                    ("compute_input", "input"),
                    ("compute_infer", "inference"),
                    ("compute_output", "output"),
                )
            ),
        )
    )
    return Row("Latency", panels)


def _slow_tails() -> tuple[Query, Query]:
    return (
        Query(f"max by (model) ({_of('model:triton_slow_tail_responses:ratio_1h')})", "{{model}} p99"),
        Query(f"vector({1 - objectives.TAIL_LATENCY:.4g})", "allowed p99"),
    )


def _queues() -> Row:
    return Row(
        "Queues",
        [
            timeseries(
                "Waiting requests",
                "In the queues of all pods, at the moment of each scrape.",
                "short",
                Query(f"sum by (model) ({_of(PENDING)})", "{{model}}"),
            ),
            timeseries(
                "Mean queue length",
                "From the time that requests spent in the queue: without the chance of the moment, and late in an overload, "
                "because it counts a request when it leaves.",
                "short",
                Query(f"sum by (model) ({_of(QUEUE_LENGTH)})", "{{model}}"),
            ),
            timeseries(
                "Longest queue of a pod",
                "Far above the mean: requests do not spread over the pods (a client that keeps one connection, say).",
                "short",
                Query(f"max by (model) ({_of(PENDING)})", "{{model}} longest"),
                Query(f"avg by (model) ({_of(PENDING)})", "{{model}} mean"),
            ),
        ],
    )


def _batches(settings: Settings) -> Row:
    configured = [
        Query(
            f"vector({instances_per_pod(fleet.stack, model, want)})",
            f"{model} instances" if fleet.name is None else f"{model} instances of {fleet.name}",
        )
        for fleet in settings.each_fleet
        for model, want in sorted(fleet.stack.models.serving.items())
    ]
    return Row(
        "Batches and instances",
        [
            timeseries(
                "Batch size",
                "Inferences per execution.",
                "short",
                Query(
                    f"{_rate('nv_inference_count', 'model')} / ({_rate('nv_inference_exec_count', 'model')} > 0)",
                    "{{model}}",
                ),
            ),
            timeseries(
                "Busy instances of a pod",
                "Executions at a time, on average, in the busiest pod of each model, and the instances that a pod has. When "
                "the two meet, the model is at its limit and requests wait.",
                "short",
                Query(f"max by (model) ({_of(BUSY)})", "{{model}} busy"),
                *configured,
            ),
            timeseries(
                "Requests at a time",
                "Inside the server, waiting or executing.",
                "short",
                Query(f"sum by (model) ({_of(CONCURRENCY)})", "{{model}}"),
            ),
        ],
    )


def _cache() -> Row:
    hits, misses = (_rate(f"nv_cache_num_{kind}_per_model", "model") for kind in ("hits", "misses"))
    return Row(
        "Response cache",
        [
            timeseries(
                "Answered from the cache",
                "Share of the lookups. Such answers are requests, and neither inferences nor executions.",
                "percentunit",
                Query(f"{hits} / (({hits} + {misses}) > 0)", "{{model}}"),
            ),
            timeseries(
                "Cache in use",
                "Of each pod's responseCacheMiB.",
                "percentunit",
                Query(f"max by (pod) ({series('nv_cache_util')})", "{{pod}}"),
            ),
        ],
    )


def _pods(settings: Settings) -> Row:
    own = pods_of([fleet.release for fleet in settings.each_fleet])
    used = series("container_memory_working_set_bytes", own, container=TRITON_CONTAINER)
    limit = series("kube_pod_container_resource_limits", own, container=TRITON_CONTAINER, resource="memory")
    restarts = series("kube_pod_container_status_restarts_total", own, container=TRITON_CONTAINER)
    load = timeseries(
        "GPU load",
        f"GPUs of a pod that its executions keep busy. The fleet is scaled to {GPU_LOAD_SHARE:g} per GPU.",
        "short",
        Query(f"max by (pod) ({series(GPU_LOAD, own)})", "{{pod}}"),
    )
    return Row(
        "Pods",
        [
            *([load] if any(shares_gpus(fleet.stack) for fleet in settings.each_fleet) else []),
            table(
                "Versions served",
                "Pods that differ outside a rollout: TritonModelVersionSkew.",
                f"count by (pod, model, version) ({_of('nv_inference_pending_request_count')})",
                ["pod", "model", "version"],
            ),
            timeseries(
                "Memory",
                "Of the pod's limit.",
                "percentunit",
                Query(f"max by (pod) ({used}) / max by (pod) ({limit})", "{{pod}}"),
            ),
            timeseries(
                "Restarts",
                "Of the server's container, in the last hour.",
                "short",
                Query(
                    f"sum by (pod) (increase({restarts}[1h]))",
                    "{{pod}}",
                ),
            ),
        ],
    )


def _of(name: str) -> str:
    return series(name, _CHOSEN)


def _rate(metric: str, by: str) -> str:
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({_of(metric)}[{WINDOW}]))"


def _per_request(duration: str) -> str:
    return f"{_rate(duration, 'model')} / ({_rate('nv_inference_request_success', 'model')} > 0)"
