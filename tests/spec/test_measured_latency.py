"""An SLO is checked against recorded latencies of the same models."""

import json
from typing import Any

import pytest

from spec import measured_latency
from tests.paths import ROOT
from tests.spec.stack_config import complaints, settings

PATH = "models.serving.text_detection.sloP95Ms"
# dev's wants for them: docs/serving.md#the-models-of-the-stacks.
MODELS: dict[str, dict[str, Any]] = {
    name: {"device": "gpu", "gpuMemoryMiB": mib, "sloP95Ms": 500, "expectedRate": 1, "peakRate": 4}
    for name, mib in (("filetype", 400), ("text_detection", 2100), ("text_direction", 100), ("text_recognition", 1100))
}
EVIDENCE = "benchmarks/results/projection-2026-11-27-0302c850.json"


def serving(**detection: Any) -> dict[str, Any]:
    models = {**MODELS, "text_detection": {**MODELS["text_detection"], **detection}}
    return {"models.release": None, "models.serving": models}


def test_the_table_is_the_record() -> None:
    record = json.loads((ROOT / measured_latency.RECORD).read_text())
    assert record["gpu"] == measured_latency.GPU
    assert {name: (list(one.shape), one.p95_ms) for name, one in measured_latency.LARGEST.items()} == {
        one["model"]: (one["largest"], one["latency"]["p95_ms"]) for one in record["models"]
    }


def test_an_slo_below_the_recorded_p95_is_refused() -> None:
    assert complaints(serving(sloP95Ms=311)) == [
        f"{PATH}: 311 ms are less than the 311.17 ms in which an NVIDIA H200 answered 95 % of requests of "
        "1 x 3 x 2016 x 2016 (benchmarks/results/gpu-2026-11-26-dbe5deac.json); use 312 or more, or run "
        "`modelctl tune` with smaller requests, which writes tuned"
    ]
    assert settings(serving(sloP95Ms=312)).models.serving["text_detection"].slo_p95_ms == 312


NEWER = {
    "instanceTypes": {
        "p9.xlarge": {
            "vcpus": 8,
            "memoryGiB": 64,
            "gpus": 1,
            "gpuName": "Z100",
            "gpuMemoryGiB": 100,
            "computeCapability": 10.0,
            "nvmeGiB": 500,
        }
    },
    "gpu.pools[0].instanceTypes": ["p9.xlarge"],
}


@pytest.mark.parametrize(
    "changes",
    [
        serving(sloP95Ms=50, tuned=EVIDENCE),
        {**serving(), "models.serving": {"text_detection": {**MODELS["text_detection"], "sloP95Ms": 50}}},
        {**serving(sloP95Ms=50), **NEWER},
    ],
    ids=["with evidence for other requests", "another model of that name", "a newer GPU"],
)
def test_an_slo_that_the_record_says_nothing_about_is_accepted(changes: dict[str, Any]) -> None:
    assert settings(changes).models.serving["text_detection"].slo_p95_ms == 50


def test_a_model_on_the_cpu_is_not_held_against_a_gpu() -> None:
    on_cpu = {"device": "cpu", "gpuMemoryMiB": None, "sloP95Ms": 50}
    models = {
        **MODELS,
        "text_detection": {key: value for key, value in {**MODELS["text_detection"], **on_cpu}.items() if value},
    }
    assert settings({"models.release": None, "models.serving": models}).models.serving["text_detection"].device == "cpu"
