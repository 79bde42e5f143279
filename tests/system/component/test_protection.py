"""`allowDestroy: true` in a stack file disables the protections, and changes nothing else in production."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import previewed


@pytest.fixture(scope="module")
def let_go() -> Recording:
    """Return the preview of prod with the flag."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    config["triton-eks:allowDestroy"] = True
    return previewed(ROOT, "prod", config)


def test_nothing_is_protected(let_go: Recording) -> None:
    assert [item.name for item in let_go.registrations if item.protect] == []
    assert let_go.one("aws:eks/cluster:Cluster").inputs["deletionProtection"] is False


def test_the_models_are_left_when_the_stack_goes_and_requests_are_not(let_go: Recording) -> None:
    buckets = {item.name: item for item in let_go.of_type("aws:s3/bucket:Bucket")}
    models, requests = buckets["models-bucket"], buckets["requests-results-bucket"]
    assert (models.retain_on_delete, models.inputs.get("forceDestroy", False)) == (True, False)
    assert (requests.retain_on_delete, requests.inputs["forceDestroy"]) == (False, True)
