"""Releases that an in-place rollout refuses, with the reasons."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from modelctl.rollout import plan
from modelctl.rollout.plan import Refused, StackRelease
from modelctl.store.bucket import Store
from modelctl.store.journal import Change
from modelctl.store.manifest import Manifest
from tests.modelctl.rollout.releases import CODE, CONFIG, ENSEMBLE, GOLDEN, model, publish

Published = Callable[..., StackRelease]
ROLLING = "set triton.rollout: rolling, or release it under another model name"


@pytest.fixture
def published(store: Store, tmp_path: Path) -> Published:
    def release(*models: Mapping[str, str]) -> StackRelease:
        manifest: Manifest = publish(store, tmp_path / "repository", *models)
        return StackRelease(manifest, "local", store)

    return release


def _reasons(old: StackRelease, new: StackRelease) -> list[str]:
    with pytest.raises(Refused) as refusal:
        plan.changes(old, new)
    return refusal.value.reasons


def test_models_with_another_version_change_and_the_others_do_not(published: Published) -> None:
    old = published(model("adder", 1), model("other", 4))
    new = published(model("adder", 2), model("other", 4), model("third", 1))

    assert plan.changes(old, new) == (Change(model="adder", old=1, new=2), Change(model="third", old=None, new=1))


def test_a_lower_version_is_a_change_like_any_other(published: Published) -> None:
    assert plan.changes(published(model(version=2)), published(model(version=1))) == (Change(model="adder", old=2, new=1),)


def test_the_same_version_with_other_content_needs_another_number(published: Published) -> None:
    assert _reasons(published(model()), published(model(code=CODE + "# changed\n"))) == [
        "adder: version 1 is served with other content (adder/1/model.py), and a client could not tell the two "
        "apart: give the new content the version 2"
    ]


def test_the_same_version_with_another_config_needs_another_number(published: Published) -> None:
    batches_of_four = CONFIG.replace("max_batch_size: 8", "max_batch_size: 4")
    assert _reasons(published(model()), published(model(config=batches_of_four))) == [
        "adder: version 1 is served with other content (its config), and a client could not tell the two apart: "
        "give the new content the version 2"
    ]


def test_a_new_version_with_another_interface_would_be_forced_on_the_old_one(published: Published) -> None:
    wider = CONFIG.replace('"OUT" data_type: TYPE_FP32 dims: [ 1 ]', '"OUT" data_type: TYPE_FP32 dims: [ 2 ]')
    files = {path: text for path, text in model(version=2, config=wider).items() if not path.endswith("golden.json")}
    out = {"datatype": "FP32", "shape": [1, 2], "data": [1.0, 1.0]}
    golden = json.dumps({**json.loads(GOLDEN), "outputs": {"OUT": out}})
    assert _reasons(published(model()), published({**files, "adder/2/golden.json": golden})) == [
        "adder: its config differs in output, and a model has one config for all its versions, so that the served one would "
        f"be loaded with it: {ROLLING}"
    ]


def test_a_new_version_may_be_scheduled_otherwise(published: Published) -> None:
    two = CONFIG.replace("count: 1", "count: 2")
    assert plan.changes(published(model()), published(model(version=2, config=two))) == (
        Change(model="adder", old=1, new=2),
    )


def test_files_that_versions_share_must_be_the_same(published: Published) -> None:
    old = published(model(), {"adder/labels.txt": "one"})
    assert _reasons(old, published(model(version=2), {"adder/labels.txt": "two"})) == [
        "adder: adder/labels.txt is shared by all its versions and differs: put it into the version's directory"
    ]


def test_a_model_without_a_golden_inference_could_be_wrong_unnoticed(published: Published) -> None:
    files = {path: text for path, text in model(version=2).items() if not path.endswith("golden.json")}
    old, new = published(model()), published(files)

    assert _reasons(old, new) == [
        "adder: version 2 has no golden.json, so that nothing would tell a wrong model from a right one: add "
        "models/adder/2/golden.json and release again"
    ]
    assert plan.changes(old, new, needs_golden=False) == (Change(model="adder", old=1, new=2),)


def test_a_removed_model_may_still_be_asked_for(published: Published) -> None:
    old, new = published(model("adder"), model("other")), published(model("adder"))
    assert _reasons(old, new) == [
        f"other: release {new.manifest.id} does not have it any more, and clients may still ask for it: "
        "set triton.rollout: rolling"
    ]


def test_a_model_that_an_ensemble_calls_would_change_pod_by_pod(published: Published) -> None:
    ensemble = {"both/config.pbtxt": ENSEMBLE, "both/1/.keep": ""}
    assert _reasons(published(model(version=1), ensemble), published(model(version=2), ensemble)) == [
        "adder: the ensemble both calls it, and an ensemble has one config for all its versions, so that its answers would "
        f"change pod by pod: {ROLLING}"
    ]


def test_a_model_that_another_calls_from_its_code_would_change_pod_by_pod(published: Published) -> None:
    caller = model("caller", 3, code=CODE + "def call(pb_utils):\n    pb_utils.InferenceRequest(model_name='adder')\n")
    assert _reasons(published(model(version=1), caller), published(model(version=2), caller)) == [
        "adder: caller/3/model.py calls it inside the server, and its answers would change pod by pod: " + ROLLING
    ]


def test_an_ensemble_itself_is_no_candidate(published: Published) -> None:
    def ensemble(version: int) -> dict[str, str]:
        golden = model()["adder/1/golden.json"]
        return {"both/config.pbtxt": ENSEMBLE, f"both/{version}/golden.json": golden}

    assert _reasons(published(model(), ensemble(1)), published(model(), ensemble(2))) == [
        "both: is an ensemble, and an ensemble has one config for all its versions, so that the served one would change pod "
        f"by pod: {ROLLING}"
    ]


def test_a_model_with_sequences_is_no_candidate(published: Published) -> None:
    sequences = (
        CONFIG.partition("dynamic_batching")[0] + "sequence_batching { direct {} max_sequence_idle_microseconds: 1000000 }\n"
    )

    def stateful(version: int) -> dict[str, str]:
        files = model(version=version, config=sequences)
        return {path: text for path, text in files.items() if not path.endswith("golden.json")}

    assert _reasons(published(stateful(1)), published(stateful(2))) == [
        f"adder: it answers sequences, and a sequence must end on the version that it began on: {ROLLING}"
    ]


def test_every_reason_is_said_at_once(published: Published) -> None:
    old = published(model("adder"), model("other"), model("gone"))
    files = {path: text for path, text in model("adder", 2).items() if not path.endswith("golden.json")}
    reasons = _reasons(old, published(files, model("other", code=CODE + "#\n")))
    assert [reason.partition(":")[0] for reason in reasons] == ["gone", "other", "adder"]
