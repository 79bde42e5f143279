"""`twin advise`: replayed changes of autoscaling; helpful ones, best first, as lines of the stack file."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from spec.failure import Failure
from spec.settings import load, load_stack_file, read_config
from spec.settings.digest import serving_digest
from twin.host.home import REPOSITORY
from twin.replay import advice, command, simulation
from twin.replay.changes import Change, answers, changes, pods_of_peak
from twin.replay.service import ASSUMED, Service

SLOW = ["filetype=20:80"]
"""100 requests/s an instance: too few pods for the trace."""
NOW = advice.Total(missed_share=0.1, gpu_hours=2.0, usd=None)


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stack files, and a trace of three minutes."""
    shutil.copytree(REPOSITORY / "stacks", tmp_path / "stacks")
    (tmp_path / "trace.csv").write_text(
        "seconds,requests_per_second,model\n0,40,filetype\n60,340,filetype\n120,340,filetype\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulation, "SETTLE_SECONDS", 60)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *batch_ms: str) -> Any:
    advice.advise("prod", "trace.csv", batch_ms, as_json=True)
    return json.loads(capsys.readouterr().out)


def test_what_helps_is_told_with_the_fewest_misses_first(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *SLOW)
    assert found.keys() == {"stack", "trace", "now", "advice", "noBetter", "refused", "notes"}
    ranks = [(round(one["missedShare"], 4), round(one["gpuHours"], 1)) for one in found["advice"]]
    now = (round(found["now"]["missedShare"], 4), round(found["now"]["gpuHours"], 1))
    assert ranks == sorted(ranks)
    assert all(missed < now[0] or hours < now[1] for missed, hours in ranks)
    assert {"minReplicas": 4} in [one.get("autoscaling") for one in found["advice"]]


def test_each_line_that_is_pasted_comes_to_what_was_told(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    rows = "0,40,filetype\n60,340,filetype\n600,40,filetype\n1200,40,filetype\n"
    (checkout / "trace.csv").write_text(f"seconds,requests_per_second,model\n{rows}")
    told, file = document(capsys, *SLOW), checkout / "stacks/Pulumi.prod.yaml"
    yaml, text = YAML(), file.read_text()
    found = {}
    lines = [Change("autoscaling", one["autoscaling"]).pasted for one in told["advice"] if "autoscaling" in one]
    for line in lines:
        stack = yaml.load(text)
        stack["config"]["triton-eks:autoscaling"].update(YAML(typ="safe").load(line))
        with file.open("w") as stream:
            yaml.dump(stack, stream)
        command.replay("prod", "trace.csv", None, SLOW, as_json=True)
        replayed = json.loads(capsys.readouterr().out)["after"]["triton-blue"]
        found[line] = {key: replayed[key] for key in ("missedShare", "gpuHours", "usd")}
    assert found == {
        Change("autoscaling", one["autoscaling"]).pasted: {key: one[key] for key in ("missedShare", "gpuHours", "usd")}
        for one in told["advice"]
        if "autoscaling" in one
    }
    assert len(found) > 3


def fleet(model: str, one: float, source: str = "tuned") -> Any:
    """Return a fleet whose pods answer the model's requests serially, in this many seconds."""
    service = Service(instances=1, batch=1, one=one, full=one, source=source)
    return SimpleNamespace(models=(SimpleNamespace(name=model, service=service),))


def test_a_target_of_requests_is_tried_where_a_pods_are_known() -> None:
    settings, section = load_stack_file("stacks/Pulumi.prod.yaml"), {"targets": {"filetype": {"pending": 2, "busy": 0.9}}}
    targets = {"targets": {"filetype": {"pending": 2, "rate": 64.0}}}
    assert Change("autoscaling", targets) in list(changes(settings, section, [fleet("filetype", 1 / 80)]))
    assert not [change for change in changes(settings, {}, []) if "rate" in str(change.keys)]


@pytest.mark.parametrize(("seconds", "floors"), [(1 / 80, [4, 2]), (1 / 20, [4, 2, 6]), (1 / 10, [4, 2])])
def test_the_pods_of_the_peak_are_tried_as_a_floor_where_bounds_have_them(seconds: float, floors: list[int]) -> None:
    settings = load_stack_file("stacks/Pulumi.prod.yaml")  # 3 to 8 pods, and a peak of 120 requests/s
    tried = [
        change.keys["minReplicas"]
        for change in changes(settings, {}, [fleet("filetype", seconds)])
        if "minReplicas" in change.keys
    ]
    assert tried == floors
    assert pods_of_peak(settings, {"filetype": 50.0}) == 3
    assert pods_of_peak(settings, {}) == 0


def test_queues_that_hold_nothing_too_late_are_tried_with_what_the_slo_leaves_beside_a_full_batch(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    file = checkout / "stacks/Pulumi.prod.yaml"
    settings = load_stack_file(str(file))
    (change,) = [
        one for one in changes(settings, {}, [fleet("filetype", 0.03), fleet("speech", 0.01)]) if one.section == "models"
    ]
    assert change.keys == {"serving": {"filetype": {"queueTimeoutMs": 70}}}  # the other keeps sequences
    assert change.pasted.startswith("serving: {filetype: {queueTimeoutMs: 70}}  # of triton-eks:models, ")
    changed = load(change.made(read_config(file.read_bytes(), str(file)), settings), "prod")
    assert changed.models.serving["filetype"] == settings.models.serving["filetype"].model_copy(
        update={"queue_timeout_ms": 70}
    )
    assert changed.models.serving["speech"] == settings.models.serving["speech"]
    assert changed.models.release is not None and settings.models.release is not None
    assert changed.models.release.serving == serving_digest(changed) != settings.models.release.serving
    assert "models" not in [one.section for one in changes(changed, {}, [fleet("filetype", 0.03)])]
    assert "models" not in [one.section for one in changes(settings, {}, [fleet("filetype", 0.1)])]  # a batch takes the SLO


def test_bounded_queues_come_to_what_was_told_once_they_are_released(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    file = checkout / "stacks/Pulumi.prod.yaml"
    rows = "0,40,filetype\n60,500,filetype\n120,500,filetype\n"
    (checkout / "trace.csv").write_text(f"seconds,requests_per_second,model\n{rows}")
    (told,) = [one for one in document(capsys, *SLOW)["advice"] if "models" in one]
    assert told["models"]["serving"]["filetype"] == {"queueTimeoutMs": 20}
    assert told["missedShare"] > 0
    yaml, config = YAML(), read_config(file.read_bytes(), str(file))
    stack = yaml.load(file)
    released = Change("models", told["models"]).made(config, load_stack_file(str(file)))
    stack["config"]["triton-eks:models"]["release"]["serving"] = released["triton-eks:models"]["release"]["serving"]
    for model, keys in told["models"]["serving"].items():
        stack["config"]["triton-eks:models"]["serving"][model].update(keys)
    with file.open("w") as stream:
        yaml.dump(stack, stream)
    command.replay("prod", "trace.csv", None, SLOW, as_json=True)
    replayed = json.loads(capsys.readouterr().out)["after"]["triton-blue"]
    assert {key: replayed[key] for key in ("missedShare", "gpuHours", "usd")} == {
        key: told[key] for key in ("missedShare", "gpuHours", "usd")
    }


def test_what_the_stack_would_be_refused_with_is_not_tried_and_told_why(capsys: pytest.CaptureFixture[str]) -> None:
    (refused,) = document(capsys)["refused"]
    assert refused["autoscaling"] == {"maxReplicas": 12}
    assert refused["why"].startswith(
        "gpu.pools[0].max: 16 nodes hold the pods of one release, which fill 12, and rollout: blue-green"
    )


def test_targets_that_the_file_has_stay_in_the_line_to_paste() -> None:
    settings, section = load_stack_file("stacks/Pulumi.prod.yaml"), {"targets": {"text_in_picture": {"pending": 2}}}
    targets = [change.keys["targets"] for change in changes(settings, section, []) if "targets" in change.keys]
    assert [one["text_in_picture"] for one in targets] == [{"pending": 2, "busy": 1.0}, {"pending": 2, "busy": 1.7}]
    assert targets[0]["filetype"] == {"busy": 1.0}


def test_a_line_is_yaml_of_the_section(capsys: pytest.CaptureFixture[str]) -> None:
    advice.advise("prod", "trace.csv", SLOW, as_json=False)
    printed = capsys.readouterr().out
    assert "  as it is\n" in printed and "each by itself, the best first" in printed
    assert "  minReplicas: 4\n" in printed
    line = Change("autoscaling", {"targets": {"a": {"pending": 1, "busy": 0.5}}}).pasted
    assert YAML(typ="safe").load(line) == {"targets": {"a": {"pending": 1, "busy": 0.5}}}
    assert Change("autoscaling", {"startSeconds": 300}).pasted == "startSeconds: 300  # only where starts are as fast"


@pytest.mark.parametrize(
    ("better", "is_asked_to_paste"), [((), False), (((Change("autoscaling", {"minReplicas": 4}), NOW),), True)]
)
def test_one_is_to_be_pasted_where_one_is_better(
    better: tuple[Any, ...], is_asked_to_paste: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = advice.Advice(NOW, better, (Change("autoscaling", {"minReplicas": 2}),), (), ())
    monkeypatch.setattr(advice, "_advice", lambda *_: (found, "steps"))
    advice.advise("prod", "steps", [], as_json=False)
    printed = capsys.readouterr().out
    assert ("Paste one" in printed, "None of them is better." in printed) == (is_asked_to_paste, not is_asked_to_paste)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dev", "trace.csv", []), "dev has no section triton-eks:autoscaling, so that nothing scales its pods"),
        (("prod", "nowhere.csv", []), "there is no such file"),
        (("prod", "trace.csv", ["filetype"]), "--batch-ms filetype: give a model"),
        (("nowhere", "trace.csv", []), "no stack file"),
    ],
)
def test_what_is_asked_for_wrongly_is_told(arguments: tuple[str, str, list[str]], said: str, checkout: Path) -> None:
    dev = checkout / "stacks/Pulumi.dev.yaml"
    scaled = YAML().load(dev)
    del scaled["config"]["triton-eks:autoscaling"], scaled["config"]["triton-eks:triton"]["autoscaler"]
    scaled["config"]["triton-eks:triton"]["replicas"] = 1
    with dev.open("w") as stream:
        YAML().dump(scaled, stream)
    with pytest.raises(Failure, match=said):
        advice.advise(*arguments, as_json=True)


def test_a_rate_is_what_the_slowest_fleet_of_a_model_answers() -> None:
    fast, slow, assumed = fleet("shared", 0.01), fleet("shared", 0.02), fleet("shared", 0.5, ASSUMED)
    for order in ([fast, slow, assumed], [assumed, slow, fast]):
        assert answers(order) == {"shared": pytest.approx(50)}
    assert answers([assumed]) == {}
