"""Recording rules that make numbers for people and autoscalers out of Triton's counters.

Every sum is over all series of a model: on a GPU each metric has two of them, with and without `gpu_uuid`, and one of the
two is always 0 (docs/facts/triton-metrics.md#pairs-on-gpus). Windows of a minute hold four scrapes of 15 s
(docs/facts/triton-metrics.md#windows).
"""

from __future__ import annotations

from spec.prometheus.rule import SCRAPE_SECONDS, Group, group, record, series

PENDING = "pod_model:triton_pending_requests:sum"
QUEUE_LENGTH = "pod_model:triton_queue_length:rate1m"
CONCURRENCY = "pod_model:triton_concurrency:rate1m"
BUSY = "pod_model:triton_busy_instances:rate1m"
ANSWERED = "pod_model:triton_answered_requests:rate1m"

_BY = "sum by (namespace, pod, model)"


def _rate(metric: str) -> str:
    return f"{_BY} (rate({series(metric)}[1m]))"


_SUCCESSES = _rate("nv_inference_request_success")
_EXECUTIONS = _rate("nv_inference_exec_count")
# A request that the response cache answers is a success and is never executed: measured on server 2.51 (14 of 23).
_EXECUTED = f"{_SUCCESSES}\n    - {_rate('nv_cache_num_hits_per_model')}\n  or {_SUCCESSES}"


def recording_group() -> Group:
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
                f"{_rate('nv_inference_queue_duration_us')} / 1e6",
            ),
            record(
                CONCURRENCY,
                f"{_rate('nv_inference_request_duration_us')} / 1e6",
            ),
            # Each request of a batch is charged the time of the whole batch, hence executions per executed request. An
            # idle pod has 0 busy instances, which an autoscaler must not take for a missing number.
            record(
                BUSY,
                f"{_rate('nv_inference_compute_infer_duration_us')} / 1e6\n"
                f"* {_EXECUTIONS}\n"
                f"/ (({_EXECUTED}) > 0)\n"
                f"or 0 * {_EXECUTIONS}",
            ),
            record(ANSWERED, _SUCCESSES),
            record(
                "pod_model:triton_queue_us_per_request:rate1m",
                f"{_rate('nv_inference_queue_duration_us')}\n/ ({_SUCCESSES} > 0)",
            ),
            record(
                "pod_model:triton_batch_size:rate1m",
                f"{_rate('nv_inference_count')}\n/ ({_EXECUTIONS} > 0)",
            ),
        ],
        # As often as there is something new: at the default, 30 s, an autoscaler would see a load that much later.
        interval=f"{SCRAPE_SECONDS}s",
    )
