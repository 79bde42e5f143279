"""Recording rules that make numbers for people and autoscalers out of Triton's counters.

Every sum is over all series of a model: on a GPU each metric has two of them, with and without `gpu_uuid`, and one of the
two is always 0 (docs/facts/triton-metrics.md#pairs-on-gpus). Numbers for people are of a minute, those for autoscalers of
half a minute (docs/facts/triton-metrics.md#windows).
"""

from __future__ import annotations

from spec.prometheus.rule import SCALING_WINDOW_SECONDS, TRITON_SCRAPE_SECONDS, Group, group, record, series

PENDING = "pod_model:triton_pending_requests:sum"
QUEUE_LENGTH = "pod_model:triton_queue_length:rate1m"
CONCURRENCY = "pod_model:triton_concurrency:rate1m"
BUSY = "pod_model:triton_busy_instances:rate1m"
NEEDED = f"pod_model:triton_needed_instances:rate{SCALING_WINDOW_SECONDS}s"
ASKED = f"pod_model:triton_requests:rate{SCALING_WINDOW_SECONDS}s"

_BY = "sum by (namespace, pod, model)"


def _rate(metric: str, window: str, **labels: str) -> str:
    return f"{_BY} (rate({series(metric, **labels)}[{window}]))"


def _successes(window: str) -> str:
    return _rate("nv_inference_request_success", window)


def _busy(window: str) -> str:
    """Return the instances that execute, of pods that have answered something.

    Each request of a batch is charged the time of the whole batch, hence executions per executed request. A request that the
    response cache answers is a success and is never executed: measured on server 2.51 (14 of 23).
    """
    successes = _successes(window)
    executed = f"{successes}\n    - {_rate('nv_cache_num_hits_per_model', window)}\n  or {successes}"
    return (
        f"{_rate('nv_inference_compute_infer_duration_us', window)} / 1e6\n"
        f"* {_rate('nv_inference_exec_count', window)}\n"
        f"/ (({executed}) > 0)"
    )


def _or_idle(expression: str, window: str) -> str:
    """Return 0 for an idle pod, which an autoscaler must not take for a missing number."""
    return f"{expression}\nor 0 * {_rate('nv_inference_exec_count', window)}"


def _asked(window: str) -> str:
    """Return the requests that were answered, and those that waited too long.

    The second are counted, unlike those that a full queue refuses, and say how large an overload is
    (docs/facts/triton-metrics.md#refused-requests).
    """
    rejected = _rate("nv_inference_request_failure", window, reason="REJECTED")
    return f"{_successes(window)}\n    + {rejected}\n  or {_successes(window)}"


def _needed(window: str) -> str:
    """Return the instances that execute, and those that the rejected requests would have kept busy.

    Instances that are always busy look the same in a small overload and in a large one; these do not.
    """
    return f"{_busy(window)}\n* ({_asked(window)})\n/ ({_successes(window)} > 0)"


def recording_group() -> Group:
    """Return rules per namespace, pod and model; a fleet is their sum.

    Leave ensembles out of sums: their steps are in them.
    """
    scaling = f"{SCALING_WINDOW_SECONDS}s"
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
            record(NEEDED, _or_idle(_needed(scaling), scaling)),
            record(ASKED, _asked(scaling)),
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
