"""Helm values of people that the program sets itself, or that are there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import app
from spec.settings import SettingsError
from tests.infra.access import stack
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_worker import KEDA

FILE = "stacks/Pulumi.staging.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose files of values are empty."""
    monkeypatch.chdir(tmp_path)
    for chart in ("triton", "worker"):
        for layer in ("base", "staging"):
            file = tmp_path / "helm-values" / chart / f"{layer}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("", encoding="utf-8")
    return tmp_path / "helm-values"


def refused() -> str:
    with pytest.raises(SettingsError) as error:
        app._refuse_owned_values(settings({"worker": KEDA}), stack(), FILE)
    return str(error.value)


def test_values_of_the_program_are_refused_with_both_files(folder: Path) -> None:
    (folder / "triton" / "staging.yaml").write_text(
        "image: {digest: 'sha256:0'}\nresources: {cpu: 1}\ndrain: {preStopSeconds: 5}\nshm: {size: 1Gi}\n", encoding="utf-8"
    )
    problem = f"the program sets it, from {FILE}, and this value would have no effect; remove it here"
    assert sorted(refused().splitlines()) == [
        f"helm-values/triton/staging.yaml: image.digest: {problem}",
        f"helm-values/triton/staging.yaml: resources.cpu: {problem}",
    ]


def test_values_of_all_files_are_reported_at_once(folder: Path) -> None:
    (folder / "triton" / "base.yaml").write_text("image: {digest: 'sha256:0'}\n", encoding="utf-8")
    (folder / "triton" / "staging.yaml").write_text("resources: {cpu: 1}\n", encoding="utf-8")
    (folder / "worker" / "base.yaml").write_text("serviceAccount: {name: mine}\n", encoding="utf-8")
    assert [line.partition(": the program")[0] for line in refused().splitlines()] == [
        "helm-values/triton/base.yaml: image.digest",
        "helm-values/triton/staging.yaml: resources.cpu",
        "helm-values/worker/base.yaml: serviceAccount.name",
    ]


def test_values_of_the_worker_are_refused_alike(folder: Path) -> None:
    (folder / "worker" / "base.yaml").write_text("serviceAccount: {name: mine}\n", encoding="utf-8")
    assert refused().startswith("helm-values/worker/base.yaml: serviceAccount.name: the program sets it, from ")


@pytest.mark.parametrize("chart", ["triton", "worker"])
def test_a_key_that_is_there_twice_is_refused_with_both_lines(folder: Path, chart: str) -> None:
    (folder / chart / "staging.yaml").write_text("probes: {}\n\nprobes: {periodSeconds: 3}\n", encoding="utf-8")
    assert refused() == (
        f"helm-values/{chart}/staging.yaml: line 3, column 1: 'probes' is there twice, first on line 1; keep one of them"
    )


def test_other_values_are_for_people(folder: Path) -> None:
    (folder / "triton" / "base.yaml").write_text("drain: {longestRequestSeconds: 30}\nshm: {size: 1Gi}\n", encoding="utf-8")
    app._refuse_owned_values(settings({"worker": KEDA}), stack(), FILE)
