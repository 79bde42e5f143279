"""A change that is made under load: what was judged of it, and what became of each request."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.system.e2e.conftest import UP_SECONDS, Twin, change, clone
from twin.host.home import TwinHome
from twin.services import leftovers

LOCAL, VALUES = Path("stacks", "Pulumi.local.yaml"), Path("helm-values", "triton", "local.yaml")
TEMPLATE = "kubernetes:apps/v1:Deployment"


def rehearsed(tmp_path: Path, pods: int) -> tuple[int, dict[str, Any]]:
    """Rehearse another size of /dev/shm, which makes each pod anew, after a stack with so many; exit code and document."""
    checkout = clone(tmp_path)
    change(checkout / LOCAL, "    gpus: 1\n    replicas: 1\n", f"    gpus: 1\n    replicas: {pods}\n")
    change(checkout / LOCAL, "on-demand, min: 1, desired: 1, max: 3", f"on-demand, min: 1, desired: {pods}, max: 3")
    # A machine with other work needs longer for a request; what is refused for that says nothing of the change.
    before = (checkout / LOCAL).read_text()
    (checkout / LOCAL).write_text(before.replace("sloP95Ms: 100", "sloP95Ms: 2000"))
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, "commit", "--quiet", "--all", "--message", "before"], cwd=checkout, check=True)
    change(checkout / VALUES, "  size: 64Mi\n", "  size: 96Mi\n")
    twin = Twin(TwinHome(tmp_path / "home"), checkout)
    try:
        done = twin.run("rehearse", "--from", "HEAD", "--json", seconds=UP_SECONDS)
        assert leftovers.scratch_twins(twin.home) == []
    finally:
        twin.down()
    return done.returncode, json.loads(done.stdout)


def judged(document: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(one["effect"], one["type"]) for one in document["findings"] if one["effect"] != "none"]
    assert document["errors"] == []
    return found


@pytest.mark.timeout(2 * UP_SECONDS)
def test_pods_that_are_replaced_one_after_the_other_lose_no_request(tmp_path: Path) -> None:
    code, document = rehearsed(tmp_path, pods=2)
    measured = document["measured"]
    assert judged(document) == [("rolled", TEMPLATE)]
    assert (code, measured["lost"], measured["reasons"], measured["away"], measured["ended"]) == (0, 0, {}, None, None)
    assert measured["sent"] == measured["answered"] > 100
    assert (measured["pods"], measured["kept"], measured["resources"]["update"]) == (2, 0, 1)


@pytest.mark.timeout(2 * UP_SECONDS)
def test_the_only_pod_that_is_replaced_interrupts_and_each_lost_request_is_counted(tmp_path: Path) -> None:
    code, document = rehearsed(tmp_path, pods=1)
    measured = document["measured"]
    assert judged(document) == [("interrupted", TEMPLATE)]
    assert (code, measured["ended"]) == (1, None)
    assert measured["lost"] == sum(measured["reasons"].values()) > 0
    assert measured["sent"] == measured["answered"] + measured["lost"]
    assert measured["away"]["requests"] <= measured["lost"]
    assert measured["away"]["end"] - measured["away"]["begin"] > 1
    assert (measured["pods"], measured["kept"], measured["resources"]["update"]) == (1, 0, 1)
