"""Recording rules that derive metrics for users and autoscalers from Triton's counters.

Every sum is over all series of a model. On a GPU each metric has two series, with and without `gpu_uuid`, and one of them is
always 0 (docs/facts/triton-metrics.md#pairs-on-gpus). Metrics for users cover one minute, metrics for autoscalers half a
minute, or longer for models with long executions (docs/facts/triton-metrics.md#windows).
"""

from __future__ import annotations

from collections.abc import Mapping

from spec.prometheus.gpu_load import NEEDED, gpu_load_rules
from spec.prometheus.rule import (
    SCALING_WINDOW_SECONDS,
    TRITON_SCRAPE_SECONDS,
    Group,
    Rule,
    any_of,
    group,
    record,
    scaling_window_seconds,
    series,
)
from spec.settings.model import Settings

PENDING = "pod_model:triton_pending_requests:sum"
QUEUE_LENGTH = "pod_model:triton_queue_length:rate1m"
CONCURRENCY = "pod_model:triton_concurrency:rate1m"
BUSY = "pod_model:triton_busy_instances:rate1m"
ASKED = "pod_model:triton_requests:rate"

_BY = "sum by (namespace, pod, model)"


def _rate(metric: str, window: str, *models: str, **labels: str) -> str:
    return f"{_BY} (rate({series(metric, *models, **labels)}[{window}]))"


def _successes(window: str, *models: str) -> str:
    return _rate("nv_inference_request_success", window, *models)


def _busy(window: str, *models: str) -> str:
    """Return the busy instances of pods that have answered requests.

    Triton charges each request of a batch with the time of the whole batch, so this multiplies by executions per executed
    request. A response cache hit is a success without an execution: measured on server 2.51 (14 of 23).
    """
    successes = _successes(window, *models)
    executed = f"{successes}\n    - {_rate('nv_cache_num_hits_per_model', window, *models)}\n  or {successes}"
    return (
        f"{_rate('nv_inference_compute_infer_duration_us', window, *models)} / 1e6\n"
        f"* {_rate('nv_inference_exec_count', window, *models)}\n"
        f"/ (({executed}) > 0)"
    )


def _or_idle(expression: str, window: str, *models: str) -> str:
    """Return the expression with 0 for an idle pod. An autoscaler must not treat it as a missing value."""
    return f"{expression}\nor 0 * {_rate('nv_inference_exec_count', window, *models)}"


def _asked(window: str, *models: str) -> str:
    """Return the answered requests and the requests that waited too long.

    Triton counts the latter, unlike requests that a full queue refuses. They show the size of an overload
    (docs/facts/triton-metrics.md#refused-requests).
    """
    rejected = _rate("nv_inference_request_failure", window, *models, reason="REJECTED")
    return f"{_successes(window, *models)}\n    + {rejected}\n  or {_successes(window, *models)}"


def _needed(window: str, *models: str) -> str:
    """Return the busy instances, plus the instances that the rejected requests would have needed.

    Busy instances alone look equal in a small and a large overload; this value does not.
    """
    return f"{_busy(window, *models)}\n* ({_asked(window, *models)})\n/ ({_successes(window, *models)} > 0)"


def scaling_windows(settings: Settings) -> Mapping[int, list[str]]:
    """Return the models with a longer scaling window than the shortest, by window in seconds."""
    longer: dict[int, list[str]] = {}
    for model, wants in sorted(settings.models.serving.items()):
        window = scaling_window_seconds(wants)
        if wants.llm is None and window > SCALING_WINDOW_SECONDS:
            longer.setdefault(window, []).append(model)
    return dict(sorted(longer.items()))


def _scaling_rules(settings: Settings) -> list[Rule]:
    """Return the metrics for autoscalers, with each model in its window; models without one use the shortest."""
    longer = scaling_windows(settings)
    others = [model for models in longer.values() for model in models]
    chosen: list[tuple[str, tuple[str, ...]]] = [
        (f"{SCALING_WINDOW_SECONDS}s", (f'model!~"{any_of(others)}"',) if others else ()),
        *((f"{window}s", (f'model=~"{any_of(models)}"',)) for window, models in longer.items()),
    ]
    needed = (_or_idle(_needed(window, *models), window, *models) for window, models in chosen)
    asked = (_asked(window, *models) for window, models in chosen)
    return [record(NEEDED, "\nor ".join(needed)), record(ASKED, "\nor ".join(asked))]


def recording_group(settings: Settings) -> Group:
    """Return rules per namespace, pod and model; a fleet's value is their sum.

    Exclude ensembles from sums, because their steps are counted.
    """
    return group(
        "triton.recording",
        [
            record(
                PENDING,
                f"{_BY} ({series('nv_inference_pending_request_count')})",
            ),
            # Little's law. It counts requests that left the queue, so it is late in an overload, and 0 if a server is stuck.
            record(
                QUEUE_LENGTH,
                f"{_rate('nv_inference_queue_duration_us', '1m')} / 1e6",
            ),
            record(
                CONCURRENCY,
                f"{_rate('nv_inference_request_duration_us', '1m')} / 1e6",
            ),
            record(BUSY, _or_idle(_busy("1m"), "1m")),
            *_scaling_rules(settings),
            *gpu_load_rules(settings),
            record(
                "pod_model:triton_queue_us_per_request:rate1m",
                f"{_rate('nv_inference_queue_duration_us', '1m')}\n/ ({_successes('1m')} > 0)",
            ),
            record(
                "pod_model:triton_batch_size:rate1m",
                f"{_rate('nv_inference_count', '1m')}\n/ ({_rate('nv_inference_exec_count', '1m')} > 0)",
            ),
        ],
        # As often as Triton is scraped. At the default of 30 s, an autoscaler would see a load that much later.
        interval=f"{TRITON_SCRAPE_SECONDS}s",
    )
