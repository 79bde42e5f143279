"""A server's exported series of models on a GPU, in a real recorded scrape."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

SCRAPE = Path(__file__).with_name("recorded") / "server-2.51.0-gpu.prom"
ON_GPU = ("filetype", "text_detection", "text_direction", "text_recognition")
ON_CPU = ("speech", "text_in_picture")
_SERIES = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)


def values_of(model: str) -> dict[tuple[str, str], dict[bool, float]]:
    """Return a model's values by name and reason, and by whether they have a gpu_uuid."""
    found: dict[tuple[str, str], dict[bool, float]] = defaultdict(dict)
    for series in _SERIES.finditer(SCRAPE.read_text()):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', series["labels"]))
        if labels.get("model") == model:
            key = (series["name"], labels.get("reason", ""))
            assert ("gpu_uuid" in labels) not in found[key]
            found[key]["gpu_uuid" in labels] = float(series["value"])
    return found


@pytest.mark.parametrize("model", ON_GPU)
def test_a_model_on_a_gpu_has_two_series_of_each_family_and_one_of_them_is_zero(model: str) -> None:
    values = values_of(model)
    assert {key: sorted(pair) for key, pair in values.items()} == {key: [False, True] for key in values}
    assert {key: min(pair.values()) for key, pair in values.items()} == dict.fromkeys(values, 0)
    # Instances count in the series of their GPU.
    assert values["nv_inference_exec_count", ""][True] > 100
    assert values["nv_inference_request_success", ""][True] > 100


def test_memory_and_energy_of_a_gpu_have_one_series_of_it() -> None:
    for name in ("nv_gpu_memory_used_bytes", "nv_energy_consumption"):
        (labels,) = re.findall(rf"^{name}\{{([^}}]*)\}} ", SCRAPE.read_text(), re.MULTILINE)
        assert re.fullmatch(r'gpu_uuid="GPU-[0-9a-f-]+"', labels)


@pytest.mark.parametrize("model", ON_CPU)
def test_a_model_on_the_cpu_has_one_series_of_each_family(model: str) -> None:
    assert {key: sorted(pair) for key, pair in values_of(model).items()} == {key: [False] for key in values_of(model)}
    assert values_of(model) != {}
