"""The load of shared GPUs: its rule, against the real promtool and a simulated GPU."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spec.prometheus.gpu_load import GPU_LOAD, gpu_load_rules, gpu_models, shares_gpus
from spec.prometheus.rule_file import groups
from spec.scaling.signal import GPU_LOAD_SHARE, signals
from spec.settings import Settings
from spec.settings.digest import serving_digest
from tests.spec.prometheus import promtool as tool
from tests.spec.stack_config import settings
from tests.spec.test_fleets import THREE
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, HPA, SCALED
from twin.replay.prometheus import gpu_load

ON_GPU = {**CLASSIFY, "device": "gpu", "gpuMemoryMiB": 900}
TWO = {"detect": ON_GPU, "embed": {**ON_GPU, "instances": 2}, "tokenize": CLASSIFY}
FOUR_GPUS = {"triton.pool": "p4d", "triton.gpus": 4, "gpu.pools[1].desired": 2}
LLM = {"concurrentStreams": 32, "contextTokens": 4096, "weightsMiB": 800, "kvBytesPerToken": 65_536}


def stack(serving: dict[str, Any], **changes: Any) -> Settings:
    return settings({**SCALED, "models.serving": serving, **changes})


def executing(model: str, busy: float, *, pod: str = "triton-a", rejected_per_answer: int = 0) -> list[dict[str, str]]:
    """Return a model with this instance load: every 15 s four requests, each an execution of a quarter of it."""
    labels = f'{{namespace="triton",pod="{pod}",model="{model}",version="1"}}'
    counters = {
        f"nv_inference_compute_infer_duration_us{labels}": 15_000_000 * busy,
        f"nv_inference_exec_count{labels}": 4,
        f"nv_inference_request_success{labels}": 4,
        f'nv_inference_request_failure{labels[:-1]},reason="REJECTED"}}': 4 * rejected_per_answer,
    }
    return [{"series": name, "values": f"0+{step}x40"} for name, step in counters.items()]


def recorded(promtool: Path, folder: Path, read: Settings, series: list[dict[str, str]], expected: dict[str, float]) -> None:
    """Fail unless the rules record exactly these loads, by pod."""
    samples = [{"labels": f'{GPU_LOAD}{{namespace="triton",pod="{pod}"}}', "value": load} for pod, load in expected.items()]
    case: dict[str, Any] = {
        "groups": ["triton.recording"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": series,
                "promql_expr_test": [{"expr": GPU_LOAD, "eval_time": "5m", "exp_samples": samples}],
            }
        ],
    }
    done = tool.unit_test(promtool, groups(read), case, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_busy_instances_are_divided_by_what_shares_the_gpu_with_them(promtool: Path, tmp_path: Path) -> None:
    """Next to 1.2 of embed, detect takes 2.2 times as long; next to 0.5, and 0.6 of its other instance, embed 2.1 times."""
    load = 0.5 / 2.2 + 1.2 / 2.1
    series = executing("detect", 0.5) + executing("embed", 1.2) + executing("tokenize", 1)
    recorded(promtool, tmp_path, stack(TWO), series, {"triton-a": load})
    assert gpu_load({"detect": 0.5, "embed": 1.2}, {"detect": 1, "embed": 2}, 1) == pytest.approx(load)


def test_a_gpu_on_which_one_model_alone_is_busy_has_the_load_of_that_model(promtool: Path, tmp_path: Path) -> None:
    series = executing("detect", 0.6) + executing("embed", 0)
    recorded(promtool, tmp_path, stack(TWO), series, {"triton-a": 0.6})


def test_a_full_gpu_that_rejects_as_much_as_it_answers_has_twice_its_load(promtool: Path, tmp_path: Path) -> None:
    full = {"detect": ON_GPU, "rank": ON_GPU}
    series = [one for model in full for one in executing(model, 1, rejected_per_answer=1)]
    recorded(promtool, tmp_path, stack(full), series, {"triton-a": 2})
    assert gpu_load({"detect": 2, "rank": 2}, {"detect": 1, "rank": 1}, 1) == 2


def test_instances_on_several_gpus_share_those(promtool: Path, tmp_path: Path) -> None:
    """2 of 4 and 4 of 8 instances on 4 GPUs: one and a half on each; another model's instance is there half as often."""
    load = 2 / (1 + 1.5 - 0.5) + 4 / (1 + 1.5 - 0.5)
    read = stack(TWO, **FOUR_GPUS)
    recorded(promtool, tmp_path, read, executing("detect", 2) + executing("embed", 4), {"triton-a": load})
    assert gpu_load({"detect": 2, "embed": 4}, {"detect": 4, "embed": 8}, 4) == pytest.approx(load)
    assert signals(read)[-1].target == pytest.approx(4 * GPU_LOAD_SHARE)


def test_several_instances_of_one_model_share_a_gpu_too(promtool: Path, tmp_path: Path) -> None:
    """1.2 of 2 instances are busy: the other one, 0.6 on average, stretches each."""
    serving = {"classify": {**ON_GPU, "instances": 2}}
    recorded(promtool, tmp_path, stack(serving), executing("classify", 1.2), {"triton-a": 1.2 / 1.6})
    assert gpu_load({"classify": 1.2}, {"classify": 2}, 1) == pytest.approx(1.2 / 1.6)


def test_a_pod_whose_models_have_no_number_has_no_load(promtool: Path, tmp_path: Path) -> None:
    """An autoscaler treats no value as a failure; 0 would be an idle fleet."""
    recorded(promtool, tmp_path, stack(TWO), [], {})
    assert gpu_load({"detect": None, "embed": None}, {"detect": 1, "embed": 2}, 1) is None


@pytest.mark.parametrize(
    "serving",
    [
        pytest.param({"classify": CLASSIFY}, id="a model on CPUs"),
        pytest.param({"classify": ON_GPU}, id="one model on GPUs"),
        pytest.param({"classify": ON_GPU, "tokenize": CLASSIFY}, id="one on GPUs, one on CPUs"),
        pytest.param(
            {"classify": ON_GPU, "chat": {**ON_GPU, "gpuMemoryMiB": 9000, "decoupled": True, "llm": LLM}},
            id="one and a language model",
        ),
    ],
)
@pytest.mark.parametrize("autoscaler", [SCALED, HPA], ids=["keda", "hpa"])
def test_a_fleet_with_one_instance_on_each_gpu_is_scaled_as_before(
    serving: dict[str, Any], autoscaler: dict[str, Any]
) -> None:
    read = settings({**autoscaler, "models.serving": serving})
    assert not shares_gpus(read)
    assert gpu_load_rules(read) == []
    assert "gpu-load" not in {signal.name for signal in signals(read)}


def test_an_ensemble_is_no_model_of_its_gpus() -> None:
    serving = {"pipeline": ON_GPU, "classify": ON_GPU}
    release = {"id": "0123456789ab" + 52 * "0", "bytes": 1, "models": {"pipeline": 1, "classify": 1}}
    release |= {"ensembles": {"pipeline": ["classify"]}, "serving": serving_digest(stack(serving))}
    assert list(gpu_models(stack(serving, **{"models.release": release}))) == ["classify"]


def test_each_fleet_whose_models_share_gpus_has_a_rule_of_its_pods() -> None:
    fleets = [{**fleet, "models": ["embed", "rerank"]} if fleet["name"] == "g5" else fleet for fleet in THREE["fleets"]]
    read = settings({**THREE, "models.serving.rerank": ON_GPU, "fleets": fleets})
    (rule,) = gpu_load_rules(read)
    assert rule["record"] == GPU_LOAD
    assert 'model=~"(embed|rerank)",pod=~"triton-g5-[0-9a-z]+-[0-9a-z]{5}"' in rule["expr"]


@pytest.mark.parametrize("share", [0.45, 0.6, 0.74, 0.85])
@pytest.mark.parametrize(
    ("parts", "below"),
    [((1, 1, 1, 1, 1, 1), 0.04), ((1, 1), 0.04), ((15, 1, 1, 1, 1, 1), 0.1)],
    ids=["six equal models", "two equal models", "one with three quarters"],
)
def test_the_load_is_that_of_a_simulated_gpu_or_a_little_less(parts: tuple[int, ...], below: float, share: float) -> None:
    loads = [share * part / sum(parts) for part in parts]
    busy, device = shared_gpu(loads, seconds=20_000)
    names = {str(number): 1 for number in range(len(parts))}
    found = gpu_load(dict(zip(names, busy, strict=True)), names, 1)
    assert found is not None
    assert -below - 0.01 < found - device < 0.01


def shared_gpu(loads: list[float], seconds: float) -> tuple[list[float], float]:
    """Return the busy share of each model's instance, and of the GPU, for executions of one second with equal GPU parts.

    It simulates events, unlike the project's code.
    """
    source = random.Random(7)  # noqa: S311 - repeatable on purpose
    arrivals = [source.expovariate(load) for load in loads]
    waiting, work = [0] * len(loads), [0.0] * len(loads)
    now, gpu, busy = 0.0, 0.0, [0.0] * len(loads)
    while now < seconds:
        active = [model for model, left in enumerate(work) if left > 0]
        ends = now + min(work[model] for model in active) * len(active) if active else float("inf")
        then = min(*arrivals, ends)
        for model in active:
            busy[model] += then - now
            work[model] -= (then - now) / len(active)
            if work[model] < 1e-9:
                work[model] = 0.0
        gpu += (then - now) if active else 0.0
        now = then
        for model, at in enumerate(arrivals):
            if at <= now:
                waiting[model] += 1
                arrivals[model] = now + source.expovariate(loads[model])
            if waiting[model] and work[model] == 0.0:
                waiting[model] -= 1
                work[model] = 1.0
    return [of / now for of in busy], gpu / now
