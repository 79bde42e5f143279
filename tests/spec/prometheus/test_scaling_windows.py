"""The windows of scaling metrics cover long executions, which Triton counts when they end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spec.prometheus.recording import ASKED, NEEDED, recording_group
from spec.prometheus.rule import scaling_window_seconds
from spec.scaling.behavior import behavior
from spec.settings import Settings
from tests.spec.prometheus import promtool as tool
from tests.spec.prometheus.stacks import want
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, SCALED, scaling

SERVING = {"render.v2": {**CLASSIFY, "sloP95Ms": 120_000}, "classify": CLASSIFY}
RATES = {"expectedRate": 1, "peakRate": 1}


def stack(**changes: Any) -> Settings:
    return settings({**SCALED, "models.serving": SERVING, **changes})


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ({"sloP95Ms": 50}, 30),
        ({"sloP95Ms": 3_000}, 30),
        ({"sloP95Ms": 10_000}, 100),
        ({"sloP95Ms": 120_000}, 1200),
        ({"sloP95Ms": 600_000}, 1800),
        ({"sloP95Ms": 500, "decoupled": True, "longestStreamSeconds": 60}, 1200),
        ({"sloP95Ms": 500, "sequence": {"strategy": "direct"}, "longestStreamSeconds": 90}, 30),
    ],
    ids=str,
)
def test_a_window_holds_twenty_batches_of_half_of_the_slo_or_twenty_streams(keys: dict[str, Any], seconds: int) -> None:
    """A sequence has many executions, each shorter than it."""
    assert scaling_window_seconds(want(**RATES, **keys)) == seconds


def test_each_model_is_recorded_over_its_own_window_alone(promtool: Path, tmp_path: Path) -> None:
    group = recording_group(stack())
    for rule in (rule for rule in group["rules"] if rule["record"] in (NEEDED, ASKED)):
        ranges = re.findall(r"\{([^}]*)\}\[(\d+s)\]", rule["expr"])
        chosen = {(window, re.search(r'model(=|!)~"render\[\.\]v2"', matchers)[1]) for matchers, window in ranges}
        assert chosen == {("30s", "!"), ("1200s", "=")}
    done = tool.check(promtool, [group], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_execution_of_a_minute_is_one_busy_instance_and_not_two_or_none(promtool: Path, tmp_path: Path) -> None:
    """One always busy instance ends an execution of 60 s each minute; classify answers 4/s in 50 ms.

    A window of twenty minutes contains 19 or 20 ends: 0.96 to 1.01.
    """
    labels = '{namespace="triton",pod="a",model="render.v2",version="1"}'
    other = labels.replace("render.v2", "classify")
    each_minute = {"nv_inference_compute_infer_duration_us": 60_000_000, "nv_inference_exec_count": 1}
    each_minute |= {"nv_inference_request_success": 1}
    series = {f"{name}{labels}": " ".join(f"{end * step}+0x3" for end in range(32)) for name, step in each_minute.items()}
    series |= {
        f"nv_inference_compute_infer_duration_us{other}": "0+3000000x130",
        f"nv_inference_exec_count{other}": "0+60x130",
        f"nv_inference_request_success{other}": "0+60x130",
    }
    case: dict[str, Any] = {
        "groups": ["triton.recording"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f"round({NEEDED}, 0.2)",
                        "eval_time": at,
                        "exp_samples": [
                            {"labels": '{namespace="triton",pod="a",model="classify"}', "value": 0.2},
                            {"labels": '{namespace="triton",pod="a",model="render.v2"}', "value": 1},
                        ],
                    }
                    for at in ("25m", "25m30s", "30m")
                ],
            }
        ],
    }
    done = tool.unit_test(promtool, [recording_group(stack())], case, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pods_stay_for_two_windows_of_the_longest_one() -> None:
    """A start of 60 s needs 600 s; an SLO of ten minutes needs the hour that the API allows at most."""

    def look_back(slo_ms: int) -> int:
        serving = {"classify": {**CLASSIFY, "sloP95Ms": slo_ms}}
        read = stack(**{"models.serving": serving, "autoscaling": scaling(startSeconds=60)})
        found: int = behavior(read)["scaleDown"]["stabilizationWindowSeconds"]
        return found

    assert [look_back(slo) for slo in (50, 60_000, 120_000, 600_000)] == [600, 1200, 2400, 3600]
