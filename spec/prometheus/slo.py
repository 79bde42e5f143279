"""Error budgets per model, and alerts on their burn rates (multi-window, multi-burn-rate).

Latency: 95 % of the responses within `slo_p95_ms`, and 99 % within `slo_p99_ms` if it is set. The histogram has a bucket
with exactly that bound (`latencyHistogram`; the bucket is part of the model's generated config). Availability: 99.9 % of the
requests succeed.

With a gateway, its budgets (`spec.prometheus.gateway_slo`) page, and these alerts only help to diagnose. Exceptions are the
tail budget and models whose responses the gateway does not see, which still page here.

These metrics miss requests that the server cannot count: requests that a full queue rejects, requests with wrong inputs, and
error responses that a Python model returns instead of raising: docs/facts/triton-metrics.md#refused-requests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spec import objectives
from spec.names import TRITON_NAMESPACE
from spec.prometheus.budgets import FEWEST_EVENTS, INTERVAL_SECONDS, WINDOWS, burns, share
from spec.prometheus.gateway_slo import answered_at_gateway
from spec.prometheus.rule import Group, Rule, alert, group, record, series
from spec.settings.model import Settings
from spec.settings.serving import ModelServing

_SLO_P95 = "model:triton_slo_p95_ms"
_SLO_P99 = "model:triton_slo_p99_ms"
"""The SLO of each model in milliseconds. Alerts that all models share query it for their text."""
_HISTOGRAM = "nv_inference_first_response_histogram_ms"
_REQUESTS = "model:triton_requests:rate5m"
_FAILURES = "model:triton_request_failures:rate5m"
_RESPONSES = "model:triton_responses:rate5m"
_SLOW = "model:triton_slow_responses:rate5m"
_TAIL_RESPONSES = "model:triton_tail_responses:rate5m"
_SLOW_TAIL = "model:triton_slow_tail_responses:rate5m"
_FAILED_RATIO = "model:triton_request_failures:ratio_"
_SLOW_RATIO = "model:triton_slow_responses:ratio_"
_SLOW_TAIL_RATIO = "model:triton_slow_tail_responses:ratio_"

# Traffic counts as stopped if the earlier rate was at least this share of the expected rate, with ten requests due since.
_USUAL_SHARE = 0.1
_FEWEST_USUAL = FEWEST_EVENTS / (15 * 60)


def slo_recording_group(settings: Settings) -> Group:
    """Return recordings of failed and slow requests per namespace and model: rates, and shares for every alert window."""
    failures = _rate(series("nv_inference_request_failure"))
    measured = sorted((model, want) for model, want in settings.models.serving.items() if want.latency_histogram)
    tails = _tails(settings)
    return group(
        "triton.slo.recording",
        [
            record(_REQUESTS, f"{_rate(series('nv_inference_request_success'))}\n+ {failures}"),
            record(_FAILURES, failures),
            *(rule for model, want in measured for rule in _responses(model, want.slo_p95_ms, _RESPONSES, _SLOW)),
            *(rule for model, slo_ms in tails.items() for rule in _responses(model, slo_ms, _TAIL_RESPONSES, _SLOW_TAIL)),
            *(_objective(_SLO_P95, model, want.slo_p95_ms) for model, want in measured),
            *(_objective(_SLO_P99, model, slo_ms) for model, slo_ms in tails.items()),
            *(record(f"{_FAILED_RATIO}{window}", share(_FAILURES, _REQUESTS, window)) for window in WINDOWS),
            *(record(f"{_SLOW_RATIO}{window}", share(_SLOW, _RESPONSES, window)) for window in WINDOWS if measured),
            *(
                record(f"{_SLOW_TAIL_RATIO}{window}", share(_SLOW_TAIL, _TAIL_RESPONSES, window))
                for window in WINDOWS
                if tails
            ),
        ],
        interval=f"{INTERVAL_SECONDS}s",
    )


def slo_alert_group(settings: Settings) -> Group:
    """Return the alerts about the SLOs of a stack's models."""
    serving = sorted(settings.models.serving.items())
    measured, tails = [model for model, want in serving if want.latency_histogram], [*_tails(settings)]
    at_gateway = [model for model, want in serving if settings.gateway is not None and answered_at_gateway(want)]
    rules = _availability([model for model, _want in serving], at_gateway)
    rules += _late("TritonLatencyBudgetBurn", measured, at_gateway, _SLO_P95, objectives.LATENCY, _SLOW_RATIO, _SLOW)
    rules += _late("TritonTailLatencyBudgetBurn", tails, (), _SLO_P99, objectives.TAIL_LATENCY, _SLOW_TAIL_RATIO, _SLOW_TAIL)
    for model, want in serving:
        rules += _latency(model, want)
        rules.append(_traffic_stopped(model, want))
    return group("triton.slo.alerts", rules)


def _availability(models: Sequence[str], at_gateway: Collection[str]) -> list[Rule]:
    """Return one alert of each severity for all models, because their objective is the same."""
    allowed = f"{1 - objectives.AVAILABILITY:.1%}"
    return burns(
        "TritonAvailabilityBudgetBurn",
        [model for model in models if model not in at_gateway],
        _FAILED_RATIO,
        _FAILURES,
        1 - objectives.AVAILABILITY,
        summary="Requests for {{ $labels.model }} fail: {{ $value | humanizePercentage }}",
        description="Of the requests for {{ $labels.model }}, {{ $value | humanizePercentage }} fail, where "
        f"{allowed} may. Requests that a full queue turns away come on top: Triton does not count them.",
        diagnosed=[model for model in models if model in at_gateway],
    )


def _latency(model: str, want: ModelServing) -> list[Rule]:
    if want.latency_histogram:
        tail = want.slo_p99_ms
        told, bounds, quiet = _of(_SLOW, model), f"{want.slo_p95_ms} ms", "TritonLatencyBudgetBurn"
        if tail is not None:
            told = f"({told} and on (namespace, model) {_of(_SLOW_TAIL, model)})"
            bounds, quiet = f"{bounds} and with one at {tail} ms", f"{quiet} or its like of p99"
        return [
            alert(
                "TritonSloNotMeasured",
                f"{_of(_REQUESTS, model)} > 0\nunless on (namespace, model) {told}",
                lasting="30m",
                severity="warning",
                labels={"model": model},
                summary=f"The latency SLO of {model} is not measured",
                description=f"{model} has traffic, but no pod exports its latency histogram with a bucket that ends at "
                f"{bounds}. However slow it becomes, {quiet} stays quiet.",
            ),
        ]
    if want.decoupled:
        return []  # the duration of a stream is not the latency of a response
    durations, successes = (
        series(metric, model=model) for metric in ("nv_inference_request_duration_us", "nv_inference_request_success")
    )
    return [
        alert(
            "TritonMeanLatencyHigh",
            f"{_rate(durations)} / 1000\n/ ({_rate(successes)} > 0)\n> {want.slo_p95_ms}",
            lasting="10m",
            severity="warning",
            labels={"model": model},
            summary=f"The mean request for {model} takes {{{{ $value | humanize }}}} ms",
            description=f"Not even the mean is within the {want.slo_p95_ms} ms that 95 % of the requests should be answered "
            "in. This model has no latency histogram, so its SLO itself cannot be watched.",
        )
    ]


def _late(
    name: str,
    models: Sequence[str],
    at_gateway: Collection[str],
    slo: str,
    objective: float,
    ratio: str,
    slow: str,
) -> list[Rule]:
    """Return one alert of each severity for all models. `slo` is the series with each model's milliseconds, for the text."""
    budget = 1 - objective
    slo_ms = f'{{{{ with printf "{slo}{{model=%q}}" $labels.model | query }}}}{{{{ . | first | value }}}}{{{{ end }}}} ms'
    return burns(
        name,
        [model for model in models if model not in at_gateway],
        ratio,
        slow,
        budget,
        summary=f"{{{{ $labels.model }}}} is slow: {{{{ $value | humanizePercentage }}}} over {slo_ms}",
        description="Of the responses of {{ $labels.model }}, {{ $value | humanizePercentage }} take longer than "
        f"{slo_ms}, where {budget:.0%} may.",
        diagnosed=[model for model in models if model in at_gateway],
    )


def _objective(name: str, model: str, slo_ms: int) -> Rule:
    return record(name, f"vector({slo_ms})", {"namespace": TRITON_NAMESPACE, "model": model})


def _tails(settings: Settings) -> dict[str, int]:
    """Return the p99 limit in milliseconds of each model that has one and measures latencies."""
    wants = sorted(settings.models.serving.items())
    return {model: want.slo_p99_ms for model, want in wants if want.latency_histogram and want.slo_p99_ms is not None}


def _traffic_stopped(model: str, want: ModelServing) -> Rule:
    usual = max(want.expected_rate * _USUAL_SHARE, _FEWEST_USUAL)
    return alert(
        "TritonTrafficStopped",
        f"{_of(_REQUESTS, model)} == 0\nand avg_over_time({_of(_REQUESTS, model)}[1h] offset 15m) > {usual:.3g}",
        lasting="10m",
        severity="warning",
        labels={"model": model},
        summary=f"{model} gets no requests any more",
        description=f"Pods serve {model}, and until a quarter of an hour ago requests arrived ({want.expected_rate:g}/s are "
        "expected). Now there is none: clients may not reach Triton. This alert ends by itself after about an hour.",
    )


def _responses(model: str, slo_ms: int, all_of_them: str, slow: str) -> list[Rule]:
    """Record the responses and the responses slower than an SLO. Only pods with a bucket of that bound count.

    While a changed SLO is rolled out, old pods lack the bucket and must not count as slow.
    """
    # Prometheus 3 stores le="50" as le="50.0".
    bucket = series(f"{_HISTOGRAM}_bucket", f'le=~"{slo_ms}([.]0)?"', model=model)
    in_time = f"sum by (namespace, pod, model) (rate({bucket}[5m]))"
    everything = f"sum by (namespace, pod, model) (rate({series(f'{_HISTOGRAM}_count', model=model)}[5m]))"
    return [
        record(all_of_them, f"sum by (namespace, model) (\n  {everything}\n  and {in_time})", {"model": model}),
        record(slow, f"sum by (namespace, model) (\n  {everything}\n  - {in_time})", {"model": model}),
    ]


def _rate(selected: str) -> str:
    return f"sum by (namespace, model) (rate({selected}[5m]))"


def _of(name: str, model: str | Sequence[str]) -> str:
    return series(name, model=model)
