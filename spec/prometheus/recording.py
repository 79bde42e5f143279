"""Recording rules that make numbers for people and autoscalers out of Triton's counters.

Every sum is over all series of a model: on a GPU each metric has two of them, with and without `gpu_uuid`, and one of the
two is always 0 (docs/facts/triton-metrics.md#pairs-on-gpus). Numbers for people are of a minute, those for autoscalers of
half a minute, or longer for models whose executions are long (docs/facts/triton-metrics.md#windows).
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
    """Return the instances that execute, of pods that have answered something.

    Each request of a batch is charged the time of the whole batch, hence executions per executed request. A request that the
    response cache answers is a success and is never executed: measured on server 2.51 (14 of 23).
    """
    successes = _successes(window, *models)
    executed = f"{successes}\n    - {_rate('nv_cache_num_hits_per_model', window, *models)}\n  or {successes}"
    return (
        f"{_rate('nv_inference_compute_infer_duration_us', window, *models)} / 1e6\n"
        f"* {_rate('nv_inference_exec_count', window, *models)}\n"
        f"/ (({executed}) > 0)"
    )


def _or_idle(expression: str, window: str, *models: str) -> str:
    """Return 0 for an idle pod, which an autoscaler must not take for a missing number."""
    return f"{expression}\nor 0 * {_rate('nv_inference_exec_count', window, *models)}"


def _asked(window: str, *models: str) -> str:
    """Return the requests that were answered, and those that waited too long.

    The second are counted, unlike those that a full queue refuses, and say how large an overload is
    (docs/facts/triton-metrics.md#refused-requests).
    """
    rejected = _rate("nv_inference_request_failure", window, *models, reason="REJECTED")
    return f"{_successes(window, *models)}\n    + {rejected}\n  or {_successes(window, *models)}"


def _needed(window: str, *models: str) -> str:
    """Return the instances that execute, and those that the rejected requests would have kept busy.

    Instances that are always busy look the same in a small overload and in a large one; these do not.
    """
    return f"{_busy(window, *models)}\n* ({_asked(window, *models)})\n/ ({_successes(window, *models)} > 0)"


def scaling_windows(settings: Settings) -> Mapping[int, list[str]]:
    """Return the models whose numbers for autoscalers have a longer window than the shortest, by the window in seconds."""
    longer: dict[int, list[str]] = {}
    for model, wants in sorted(settings.models.serving.items()):
        window = scaling_window_seconds(wants)
        if wants.llm is None and window > SCALING_WINDOW_SECONDS:
            longer.setdefault(window, []).append(model)
    return dict(sorted(longer.items()))


def _scaling_rules(settings: Settings) -> list[Rule]:
    """Return the numbers for autoscalers, of each window its models; any other model has the shortest."""
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
    """Return rules per namespace, pod and model; a fleet is their sum.

    Leave ensembles out of sums: their steps are in them.
    """
    return group(
        "triton.recording",
        [
            record(
                PENDING,
                f"{_BY} ({series('nv_inference_pending_request_count')})",
            ),
            # Little's law. Counts requests that left the queue: late in an overload, 0 where a server is stuck.
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
        # As often as there is something new: at the default, 30 s, an autoscaler would see a load that much later.
        interval=f"{TRITON_SCRAPE_SECONDS}s",
    )
