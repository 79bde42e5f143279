"""`modelctl tune` evidence: read, reported with its machine, and used for expected pods and the price per million."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spec.settings import Settings
from stackctl.cost import node_counts, throughput, usage
from stackctl.cost.estimate import estimate
from stackctl.cost.node_counts import Nodes
from tests.paths import ROOT
from tests.stackctl.cost.test_usage import TODAY, prices, stack, without_digest


def tuned(sections: dict[str, Any]) -> None:
    sections["models"]["serving"]["filetype"]["tuned"] = "benchmarks/results/filetype-x.json"


def plant(folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Write the evidence that `tuned` names."""
    machine = {"cpu": "A CPU", "cpus": 2, "server_on_loopback": True}
    evidence = {"model": "filetype", "winner": {"rate": 7.5}, "machine": machine, **changed}
    (folder / "filetype-x.json").write_text(json.dumps(evidence), encoding="utf-8")
    monkeypatch.setattr(throughput, "RESULTS", folder)


def of_throughput(settings: Settings) -> list[str]:
    return [note for note in usage.notes(settings) if "measured" in note]


@pytest.mark.parametrize("name", ["local", "dev", "staging", "prod"])
def test_a_stack_without_measured_throughput_says_so_and_how_to_get_it(name: str) -> None:
    """No stack file names evidence: other models were measured here, on a machine without GPUs."""
    settings = stack(name)
    assert estimate(settings, prices(), TODAY).per_million_measured == {}
    [note] = of_throughput(settings)
    assert note.startswith(
        f"no measured throughput of {', '.join(sorted(settings.models.serving))}, so no cost of a million inferences at a "
        "measured rate: "
        "run `modelctl tune` against a server on a g5.xlarge"
    )
    assert note.endswith("until then the fewest pods are the expected ones") == (settings.pod_autoscaler != "none")


def test_a_measured_rate_comes_with_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, monkeypatch)
    known, unknown = of_throughput(stack("prod", without_digest(tuned)))
    assert known == (
        "filetype: 7.5 requests/s measured on 2 CPUs (A CPU), priced as a g5.xlarge, which may answer at another rate"
    )
    assert unknown.startswith("no measured throughput of speech, text_detection, ")


def test_a_server_elsewhere_is_not_told_as_the_machine_of_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, monkeypatch, machine={"cpu": "A CPU", "cpus": 2, "server_on_loopback": False})
    found = throughput.measured(stack("prod", without_digest(tuned)))
    assert found["filetype"].where == "a server elsewhere, over a network"


def test_evidence_of_another_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, monkeypatch, model="projection")
    with pytest.raises(throughput.EvidenceError) as told:
        throughput.measured_rates(stack("prod", without_digest(tuned)))
    assert str(told.value) == "filetype-x.json: the stack file names it as evidence of filetype, and it is of projection"


def test_the_evidence_that_modelctl_tune_writes_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded evidence of a model in the benchmark, but in no stack."""
    recorded = ROOT / "benchmarks" / "results" / "projection-2026-11-27-0302c850.json"
    evidence = json.loads(recorded.read_text(encoding="utf-8"))
    plant(tmp_path, monkeypatch, **{**evidence, "model": "filetype"})
    found = throughput.measured(stack("prod", without_digest(tuned)))
    where = "2 CPUs (Intel(R) Xeon(R) Processor)"
    assert found == {
        "filetype": throughput.Measured(evidence["winner"]["rate"], where, lone_ms=22.55, server_on_loopback=True)
    }


def test_measured_throughput_decides_the_expected_pods_and_what_a_million_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, monkeypatch)
    settings = stack("prod", without_digest(tuned))
    assert throughput.measured_rates(settings) == {"filetype": 7.5}
    assert node_counts.expected_pods(settings, {}) == (4, 7)  # 40 / 7.5 in whole pods, plus the pod that reserves a node
    assert node_counts.pool_nodes(settings, settings.gpu.pools[0]) == Nodes(4, 7, 16)
    found = estimate(settings, prices(ec2_g5_xlarge="1.006"), TODAY)
    assert found.per_million_measured == {"filetype": Decimal("1.006") / (Decimal("7.5") * 3600) * 10**6}


def test_evidence_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "RESULTS", tmp_path)
    with pytest.raises(throughput.EvidenceError, match=r"filetype-x\.json: evidence that a stack file names cannot be read"):
        throughput.measured_rates(stack("prod", without_digest(tuned)))
