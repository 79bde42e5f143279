"""The entries of a pipeline's steps, which follow the pipeline's."""

from typing import Any

from spec.settings import ModelServing, Release
from spec.settings.models import Models
from spec.settings.pipelines import StepServing

TEXT = {"device": "gpu", "sloP95Ms": 200, "expectedRate": 10, "peakRate": 30}
ALL = {"device": "gpu", "sloP95Ms": 900, "sloP99Ms": 1000, "expectedRate": 4, "peakRate": 8}


def release(**facts: Any) -> Release:
    names = ("tokenize", "encode", "detect", "text", "all")
    pinned = {
        "id": "0123456789ab" + 52 * "0",
        "bytes": 1,
        "models": dict.fromkeys(names, 1),
        "ensembles": {"text": ["tokenize", "encode"]},
    }
    return Release.model_validate({**pinned, "onCpu": ["tokenize"], **facts}, strict=False)


def serving(entries: dict[str, Any], pinned: Release | None) -> dict[str, ModelServing]:
    models = Models.model_validate({"oldReleaseDays": 7, "serving": entries})
    return dict(models.with_release(pinned).serving)


def brief(entry: ModelServing) -> tuple[Any, ...]:
    return entry.device, entry.slo_p95_ms, entry.slo_p99_ms, entry.expected_rate, entry.peak_rate


def test_steps_have_the_latency_and_load_of_their_pipeline_and_python_code_stays_on_the_cpu() -> None:
    entries = serving({"text": TEXT}, release())
    assert {name: brief(entry) for name, entry in entries.items()} == {
        "text": ("cpu", 200, None, 10, 30),
        "tokenize": ("cpu", 200, None, 10, 30),
        "encode": ("gpu", 200, None, 10, 30),
    }


def test_a_step_of_two_pipelines_has_the_tighter_slo_and_the_requests_of_both() -> None:
    asks = {"all": ["encode", "detect"]}
    entries = serving({"text": TEXT, "all": ALL}, release(asks=asks))
    assert brief(entries["encode"]) == ("gpu", 200, 1000, 14, 38)
    assert brief(entries["detect"]) == ("gpu", 900, 1000, 4, 8)
    # `all` is not Python code without a GPU, so it keeps its entry's device.
    assert entries["all"].device == "gpu"


def test_steps_of_a_pipeline_in_a_pipeline_follow_the_outer_one() -> None:
    entries = serving({"all": ALL}, release(asks={"all": ["text"]}, onCpu=["tokenize", "all"]))
    devices = {name: entry.device for name, entry in entries.items()}
    assert devices == {"all": "cpu", "text": "cpu", "tokenize": "cpu", "encode": "gpu"}
    assert {entry.slo_p95_ms for entry in entries.values()} == {900}


def test_a_step_with_its_own_entry_keeps_it_and_one_that_places_itself_gets_none() -> None:
    own = {**TEXT, "sloP95Ms": 50, "gpuMemoryMiB": 900}
    assert serving({"text": TEXT, "encode": own}, release(selfPlaced=["tokenize"])) == {
        "text": ModelServing.model_validate(TEXT),  # no step follows it, so `device: gpu` remains to be refused
        "encode": ModelServing.model_validate(own),
    }


def test_a_step_is_decoupled_where_its_config_says_so() -> None:
    assert serving({"text": TEXT}, release(decoupled=["encode"]))["encode"].decoupled


def test_another_release_has_the_steps_of_its_own_pipelines_from_the_same_entries() -> None:
    models = Models.model_validate({"oldReleaseDays": 7, "serving": {"text": TEXT}}).with_release(release())
    other = models.with_release(release(ensembles={"text": ["detect"]}))
    assert {name: entry.device for name, entry in other.serving.items()} == {"text": "cpu", "detect": "gpu"}
    assert set(models.with_release(None).serving) == {"text"}
    assert isinstance(other.serving["detect"], StepServing)
