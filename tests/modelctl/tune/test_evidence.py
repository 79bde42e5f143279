"""The evidence of a tuning run: its file, machine and plot."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError

from modelctl.loadgen import Summary
from modelctl.tune.candidate import Candidate
from modelctl.tune.evidence import (
    Evidence,
    Machine,
    Versions,
    load_average,
    machine,
    trial_record,
    versions,
    winner_record,
)
from modelctl.tune.gpu_memory import MemoryUse
from modelctl.tune.plot import plot
from modelctl.tune.study import Trial, Winner
from modelctl.tune.subject import Probe


def probe(rate: float, p95_ms: float | None) -> Probe:
    held = p95_ms is not None and p95_ms <= 50
    errors = {} if p95_ms else {"UNAVAILABLE": 9}
    return Probe(
        rate, 7, held, Summary(100, 91, 1.0, rate, rate, 9.0, 9.5, p95_ms, p95_ms, p95_ms, 0.1, errors, {"1": 91}, not held)
    )


def evidence(seed: int = 1) -> Evidence:
    none, batch = Candidate(1, 0, 1), Candidate(8, 250, 2)
    trials = [
        Trial(1, "prior", none, 10.0, 40.0, [probe(40, 30.0), probe(60, None)]),
        Trial(2, "search", batch, 11.0, 120.0, [probe(120, 45.0), probe(180, 70.0)], MemoryUse(591, 700, 1211)),
    ]
    return Evidence(
        model="classify",
        version=2,
        slo_p95_ms=50,
        started=datetime(2026, 11, 21, 12, tzinfo=UTC),
        finished=datetime(2026, 11, 21, 13, tzinfo=UTC),
        seed=seed,
        budget_seconds=300,
        machine=Machine(system="Linux", cpu="x", cpus=2, load_before=0.5, load_after=1.5, server_on_loopback=True),
        versions=Versions(server="2.51.0", python="3.11.7", packages={"optuna": "5.0.0"}, revision="0123456789ab"),
        trials=[trial_record(trial) for trial in trials],
        winner=winner_record(Winner(batch, 120.0, 0.06)),
    )


def test_evidence_reads_back_as_it_was_written() -> None:
    assert Evidence.model_validate_json(evidence().model_dump_json(indent=1)) == evidence()


def test_values_are_in_the_words_of_a_stack_and_loads_are_raw() -> None:
    document = json.loads(evidence().model_dump_json())

    assert document["winner"] == {
        "values": {"maxBatchSize": 8, "maxQueueDelayUs": 250, "instances": 2},
        "rate": 120,
        "noise": 0.06,
        "requests": 0,
        "low_rate": None,
    }
    assert [trial["origin"] for trial in document["trials"]] == ["prior", "search"]
    assert document["trials"][0]["loads"][1] == {
        "rate": 60, "seed": 7, "held": False, "due": 100, "ok": 91, "seconds": 1, "throughput": 60, "p50_ms": 9,
        "p90_ms": 9.5, "p95_ms": None, "p99_ms": None, "max_ms": None, "late_p95_ms": 0.1, "errors": {"UNAVAILABLE": 9},
        "stopped": True,
    }  # fmt: skip
    assert [trial["gpu_memory"] for trial in document["trials"]] == [
        None,
        {"before_mib": 591, "loaded_mib": 700, "highest_mib": 1211},
    ]


def test_a_file_is_named_after_model_date_and_content() -> None:
    assert evidence().file_name.startswith("classify-2026-11-21-")
    assert len(evidence().file_name) == len("classify-2026-11-21-0123abcd.json")
    assert evidence().file_name == evidence().file_name != evidence(seed=2).file_name


def test_unknown_keys_are_no_evidence() -> None:
    with pytest.raises(ValidationError):
        Evidence.model_validate({**evidence().model_dump(), "cpu": 3})


def test_the_machine_is_described_without_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: pytest.fail("a machine's name is nobody's business"))

    described = machine(load_average(), server_on_loopback=False)

    assert described.cpus >= 1
    assert described.cpu
    assert described.system.startswith("Linux ")
    assert not described.server_on_loopback


def test_the_revision_tells_a_changed_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert versions("2.51.0").revision is None

    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("1")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    clean = versions("2.51.0").revision
    (tmp_path / "file").write_text("2")

    assert clean is not None
    assert versions("2.51.0").revision == f"{clean}-dirty"


def test_the_plot_is_svg_names_the_configurations_and_is_the_same_every_time() -> None:
    drawn = plot(evidence())

    ElementTree.fromstring(drawn)  # noqa: S314 - our own
    assert "<!-- batch 8, delay 250 µs, instances 2 (chosen) -->" in drawn
    assert "<!-- batch 1, delay 0 µs, instances 1 -->" in drawn
    assert "<!-- SLO 50 ms -->" in drawn
    assert plot(evidence()) == drawn
