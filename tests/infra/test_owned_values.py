"""The values that the program computes must not be in `helm-values`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from infra.app import deploy
from infra.serving import triton, worker
from infra.serving.triton import FleetArgs
from spec.helm_value_rules import TRITON_OWNED, WORKER_OWNED
from spec.settings import Settings, SettingsError, load_stack_file
from tests.charts.values_reference import leaves
from tests.infra.access import stack
from tests.paths import ROOT
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_worker import BY_HAND, KEDA

SHIPPED = [load_stack_file(ROOT / "stacks" / f"Pulumi.{name}.yaml") for name in ("local", "dev", "staging", "prod")]
SHARED_WITH_PEOPLE = {"drain.longestRequestSeconds", "spread.host", "podAnnotations.karpenter.sh/do-not-disrupt"}
"""The program raises the first, computes the second for packed pods only, and adds the third to the users' annotations."""


def not_owned(values: Mapping[str, Any], owned: tuple[str, ...]) -> set[str]:
    return {leaf for leaf in leaves(dict(values)) if not any(f"{leaf}.".startswith(f"{key}.") for key in owned)}


@pytest.mark.parametrize("read", SHIPPED, ids=lambda read: read.environment)
def test_every_value_that_the_program_computes_is_one_that_people_cannot_write(read: Settings) -> None:
    for fleet in read.each_fleet:
        if fleet.stack.models.release is not None:
            assert not_owned(triton.values(stack(), FleetArgs.of(fleet, read)), TRITON_OWNED) <= SHARED_WITH_PEOPLE
    for section in (KEDA, BY_HAND, {**KEDA, "awsEndpoint": "http://127.0.0.1:5000"}):
        given = settings({"worker": section})
        assert given.worker is not None
        assert not_owned(worker.values(stack(), given.worker, given), WORKER_OWNED) == set()


def test_a_mistake_in_the_values_stops_the_program_before_it_asks_or_makes_anything(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program runs without an engine: its first request to the account would raise another error."""
    monkeypatch.chdir(tmp_path)
    base = "server: {extraArgs: [--model-warmup=1]}"
    for path, text in {"charts/triton/values.yaml": "{}", "helm-values/triton/base.yaml": base}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(SettingsError, match="--model-warmup: tritonserver has no such flag"):
        deploy(settings({}, "prod"))
