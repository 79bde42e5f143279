"""The scalers' exact queries, against the real promtool: their results for a busy, an idle and a missing fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spec.scaling.signal import ASKED, NEEDED, PENDING, Signal, signals
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.stacks import SERVING, rule_groups, settings

pytestmark = pytest.mark.timeout(1800)

PENDING_OF_CLASSIFY = Signal(PENDING, "classify", 8)
NEEDED_OF_CLASSIFY = Signal(NEEDED, "classify", 0.7)
RATE_OF_CLASSIFY = Signal(ASKED, "classify", 10)
WITH_A_SPARE_POD = Signal(NEEDED, "classify", 0.8, spare=1)
SIGNALS = [PENDING_OF_CLASSIFY, NEEDED_OF_CLASSIFY, RATE_OF_CLASSIFY, WITH_A_SPARE_POD]
AT = "5m"

Series = list[tuple[str, str]]


def metric(name: str, pod: str, **labels: str) -> str:
    pairs = {"namespace": "triton", "pod": pod, "model": "classify", "version": "1", **labels}
    labelled = ",".join(f'{key}="{value}"' for key, value in pairs.items())
    return f"{name}{{{labelled}}}"


def counters(pod: str, *, infer_us: int, executions: int, requests: int, **labels: str) -> Series:
    """Return a pod's counters, which grow by these amounts every 15 s."""
    growth = {
        "nv_inference_compute_infer_duration_us": infer_us,
        "nv_inference_exec_count": executions,
        "nv_inference_request_success": requests,
    }
    return [(metric(name, pod, **labels), f"0+{step}x40") for name, step in growth.items()]


def rejected(pod: str, requests: int) -> Series:
    """Return the counter of requests that waited too long, which grows by this number every 15 s."""
    return [(metric("nv_inference_request_failure", pod, reason="REJECTED"), f"0+{requests}x40")]


def pending(pod: str, value: int, **labels: str) -> Series:
    return [(metric("nv_inference_pending_request_count", pod, **labels), f"{value}+0x40")]


def answer(promtool: Path, folder: Path, signal: Signal, series: Series, expected: float | None) -> None:
    """Fail unless the query returns one element with this value, or (None) no element."""
    case: dict[str, Any] = {
        "groups": ["triton.recording"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "promql_expr_test": [
                    {
                        "expr": signal.query,
                        "eval_time": AT,
                        "exp_samples": [] if expected is None else [{"labels": "{}", "value": expected}],
                    }
                ],
            }
        ],
    }
    done = tool.unit_test(promtool, rule_groups(SERVING), case, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_busy_instances_are_the_sum_over_the_pods(promtool: Path, tmp_path: Path) -> None:
    """Each pod executes 15 batches of 4 of 0.6 s in 15 s: each request is charged its whole batch's time."""
    loaded = [
        entry
        for pod in ("triton-a", "triton-b")
        for entry in counters(pod, infer_us=4 * 15 * 600_000, executions=15, requests=60)
    ]
    answer(promtool, tmp_path, NEEDED_OF_CLASSIFY, loaded, 1.2)
    answer(promtool, tmp_path, WITH_A_SPARE_POD, loaded, 2)
    answer(promtool, tmp_path, RATE_OF_CLASSIFY, loaded, 8)


def test_requests_that_waited_too_long_count_as_if_they_had_been_answered(promtool: Path, tmp_path: Path) -> None:
    """An always busy instance answers 4 a second, and 6 more come; other reasons do not count."""
    full = counters("triton-a", infer_us=15_000_000, executions=60, requests=60)
    failed = [(metric("nv_inference_request_failure", "triton-a", reason="BACKEND"), "0+900x40")]
    answer(promtool, tmp_path, NEEDED_OF_CLASSIFY, full + failed, 1)
    answer(promtool, tmp_path, NEEDED_OF_CLASSIFY, full + failed + rejected("triton-a", 90), 2.5)
    answer(promtool, tmp_path, RATE_OF_CLASSIFY, full + failed + rejected("triton-a", 90), 10)


def test_waiting_requests_are_the_sum_over_the_pods(promtool: Path, tmp_path: Path) -> None:
    answer(promtool, tmp_path, PENDING_OF_CLASSIFY, pending("triton-a", 5) + pending("triton-b", 7), 12)


def test_other_models_and_other_namespaces_do_not_count(promtool: Path, tmp_path: Path) -> None:
    others = pending("triton-a", 50, model="embed") + pending("triton-a", 70, namespace="elsewhere")
    answer(promtool, tmp_path, PENDING_OF_CLASSIFY, pending("triton-a", 5) + others, 5)


def test_a_pair_of_series_of_a_gpu_counts_once(promtool: Path, tmp_path: Path) -> None:
    """On a GPU each metric exists with and without `gpu_uuid`, and one of the two stays 0.

    See docs/facts/triton-metrics.md#pairs-on-gpus.
    """
    with_gpu = {"gpu_uuid": "GPU-0"}
    waiting = pending("triton-a", 6, **with_gpu) + pending("triton-a", 0)
    answer(promtool, tmp_path, PENDING_OF_CLASSIFY, waiting, 6)
    executing = counters("triton-a", infer_us=4 * 15 * 600_000, executions=15, requests=60, **with_gpu)
    idle = counters("triton-a", infer_us=0, executions=0, requests=0)
    answer(promtool, tmp_path, NEEDED_OF_CLASSIFY, executing + idle, 0.6)


@pytest.mark.parametrize("signal", [PENDING_OF_CLASSIFY, NEEDED_OF_CLASSIFY], ids=["pending", "busy"])
def test_an_idle_fleet_is_0_and_not_nothing(signal: Signal, promtool: Path, tmp_path: Path) -> None:
    """No value would be a failure (`ignoreNullValues` false), and the fallback would keep an idle fleet running."""
    idle = counters("triton-a", infer_us=0, executions=0, requests=0) + pending("triton-a", 0)
    answer(promtool, tmp_path, signal, idle, 0)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.query)
def test_a_fleet_that_is_not_scraped_is_nothing_and_not_0(signal: Signal, promtool: Path, tmp_path: Path) -> None:
    """0 would scale a busy fleet down to its minimum."""
    answer(promtool, tmp_path, signal, [("up{job='other'}", "1x40")], None)


@pytest.mark.parametrize("signal", [PENDING_OF_CLASSIFY, NEEDED_OF_CLASSIFY], ids=["pending", "busy"])
def test_a_fleet_that_is_not_scraped_any_more_becomes_nothing(signal: Signal, promtool: Path, tmp_path: Path) -> None:
    """Scrapes ended four minutes ago. Queries no longer see the series, because a failed scrape marks them as stale."""
    gone = [
        (name, f"{values.partition('x')[0]}x3 stale")
        for name, values in counters("triton-a", infer_us=900_000, executions=15, requests=60) + pending("triton-a", 4)
    ]
    answer(promtool, tmp_path, signal, gone, None)


def test_a_pod_that_has_just_started_takes_nothing_from_the_others(promtool: Path, tmp_path: Path) -> None:
    """It has no rate before its second scrape."""
    loaded = counters("triton-a", infer_us=4 * 15 * 600_000, executions=15, requests=60)
    new = [(name, f"_x19 {'0 ' * 2}".strip()) for name, _ in counters("triton-b", infer_us=0, executions=0, requests=0)]
    answer(promtool, tmp_path, NEEDED_OF_CLASSIFY, loaded + new, 0.6)


def test_the_queries_of_a_stack_are_those_that_are_tested() -> None:
    read = settings(SERVING)
    tested = {PENDING_OF_CLASSIFY.query, (WITH_A_SPARE_POD if read.pod_autoscaler == "keda" else NEEDED_OF_CLASSIFY).query}
    assert {signal.query for signal in signals(read) if signal.model == "classify"} == tested
