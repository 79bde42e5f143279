"""`twin replay` from its user's view: output and refusals."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from spec.failure import Failure
from twin.host.home import REPOSITORY
from twin.replay import command


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stack files, and a trace of a minute."""
    shutil.copytree(REPOSITORY / "stacks", tmp_path / "stacks")
    (tmp_path / "trace.csv").write_text("seconds,requests_per_second,model\n0,40,filetype\n60,60,filetype\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], against: str | None = None, *batch_ms: str) -> Any:
    command.replay("prod", "trace.csv", against, batch_ms, as_json=True)
    return json.loads(capsys.readouterr().out)


def test_the_document_has_every_fleet_and_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    printed = document(capsys)
    assert printed.keys() == {"stack", "trace", "after", "before", "notes"}
    assert (printed["stack"], printed["trace"], printed["before"]) == ("prod", "trace.csv", None)
    fleet = printed["after"]["triton-blue"]
    assert (fleet["seconds"], fleet["mostPods"], fleet["wanted"]) == (120, 3, [{"second": 0, "pods": 3}])
    assert fleet["gpuHours"] == pytest.approx(4 * 120 / 3600, abs=0.001), "three pods and a warm one"
    assert printed["notes"][0] == "a pod starts in 361 s, on a new node in 601 s (assumed)"


def test_what_a_stack_asks_for_and_no_replay_knows_is_said(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    notes = document(capsys)["notes"]
    assert "speech: sequence not simulated, as if the stack did not have it" in notes
    assert not [note for note in notes if note.startswith("filetype:") and "not simulated" in note]


def test_before_and_after_are_of_one_trace(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    before = (checkout / "stacks/Pulumi.prod.yaml").read_text()
    (checkout / "before.yaml").write_text(
        before.replace("minReplicas: 3", "minReplicas: 2\n    sparePods: 0").replace("warmPods: 1", "warmPods: 0")
    )
    printed = document(capsys, "before.yaml")
    assert printed["before"]["triton-blue"]["requests"] == printed["after"]["triton-blue"]["requests"]
    assert (printed["before"]["triton-blue"]["mostPods"], printed["after"]["triton-blue"]["mostPods"]) == (2, 3)


def test_settings_that_are_as_they_were_are_replayed_once(
    capsys: pytest.CaptureFixture[str], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(checkout / "stacks/Pulumi.prod.yaml", checkout / "before.yaml")
    replayed = []

    def simulate(*given: Any, **others: Any) -> Any:
        replayed.append(given)
        return simulated(*given, **others)

    simulated = command.simulate
    monkeypatch.setattr(command, "simulate", simulate)
    printed = document(capsys, "before.yaml")
    assert (printed["before"], len(replayed)) == (printed["after"], 1)


def test_before_and_after_are_of_as_many_seconds_where_the_longest_model_is_new(
    capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    (checkout / "before.yaml").write_text(renamed(checkout, "speech"))
    with (checkout / "trace.csv").open("a") as trace:
        trace.write("0,5,speech\n200,5,speech\n")
    printed = document(capsys, "before.yaml")
    assert [printed[when]["triton-blue"]["seconds"] for when in ("before", "after")] == [400, 400]


@pytest.mark.parametrize("as_json", [True, False])
def test_settings_that_serve_no_model_of_the_trace_are_told_and_are_no_before(
    as_json: bool, capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    (checkout / "before.yaml").write_text(renamed(checkout, "filetype"))
    command.replay("prod", "trace.csv", "before.yaml", [], as_json=as_json)
    printed = capsys.readouterr().out
    note = "there is no before: the settings of before.yaml serve none of the models of trace.csv"
    if as_json:
        read = json.loads(printed)
        assert (read["before"], read["notes"][-1], read["after"]["triton-blue"]["seconds"]) == (None, note, 120)
    else:
        assert note in printed.splitlines()
        assert "before ┃" not in printed


def test_mistakes_of_settings_of_before_are_told_of_their_own_file(checkout: Path) -> None:
    before = (checkout / "stacks/Pulumi.prod.yaml").read_text()
    (checkout / "before.yaml").write_text(before.replace("minReplicas: 3", "minReplicas: 30"))
    with pytest.raises(Failure, match=r"^before\.yaml: autoscaling\.minReplicas: 30 is more than maxReplicas 8"):
        command.replay("prod", "trace.csv", "before.yaml", [], as_json=True)


def renamed(checkout: Path, model: str) -> str:
    """Return the stack file with an older name of a model, and without the release, which has the current name."""
    document = YAML(typ="safe").load(checkout / "stacks/Pulumi.prod.yaml")
    models = document["config"]["triton-eks:models"]
    models.pop("release", None)
    models["serving"][f"{model}_v1"] = models["serving"].pop(model)
    text = io.StringIO()
    YAML().dump(document, text)
    return text.getvalue()


def test_given_service_times_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, None, "filetype=200:800")["after"]["triton-blue"]["missedShare"] > 0.5


def test_a_person_reads_a_table_and_a_plot(capsys: pytest.CaptureFixture[str]) -> None:
    command.replay("prod", "trace.csv", None, [], as_json=False)
    printed = capsys.readouterr().out
    for line in ("requests that missed the SLO", "GPU-hours", "pods ready   ██", "docs/replay.md"):
        assert line in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("prod", "dirunal", None, []),
            r"--trace dirunal: .* nor such a sample; did you mean 'diurnal'\? samples are steps",
        ),
        (("prod", "trace.csv", "no-such-branch", []), "no checkout of it; leave --against out"),
        (("nowhere", "trace.csv", None, []), "no stack file"),
        (("prod", "stacks", None, []), "is a directory"),
        (("prod", "trace.csv", None, ["filetype"]), "--batch-ms filetype: give a model"),
        (("prod", "trace.csv", None, ["filetype=9:3"]), "the first no longer than the second"),
        (("prod", "trace.csv", None, ["filetype=nan:3"]), "--batch-ms filetype=nan:3"),
        (("prod", "trace.csv", None, ["filetype=1_0:2_0"]), "--batch-ms filetype=1_0:2_0: give a model"),
        (("prod", "trace.csv", None, ["filetype=\u0661:3"]), "--batch-ms filetype=\u0661:3: give a model"),
        (("prod", "trace.csv", None, ["filetpe=1:3"]), "models.serving has filetype, speech, text_detection"),
        (("prod", "trace.csv", None, ["filetype=5:81"]), "a batch of 16 takes longer than its requests one by one, 80 ms"),
        (("prod", "trace.csv", "trace.csv", []), "trace.csv"),
    ],
)
def test_what_is_asked_for_wrongly_is_told(arguments: tuple[str, str, str | None, list[str]], said: str) -> None:
    with pytest.raises(Failure, match=said):
        command.replay(*arguments, as_json=True)
