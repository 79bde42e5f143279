"""Rehearses a change under load, and checks its findings and the outcome of each request.

The workloads are those in a state, `local`, and `local` next to a state.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.system.e2e.conftest import UP_SECONDS, Twin, change, clone
from tests.twin.rehearse.official_state import as_official
from twin.host.home import TwinHome
from twin.plugins import awaiting
from twin.services import leftovers, scratch

LOCAL, VALUES = Path("stacks", "Pulumi.local.yaml"), Path("helm-values", "triton")
TEMPLATE = "kubernetes:apps/v1:Deployment"
TRITON = f"{TEMPLATE}::triton-blue-chart:triton/triton-blue"
"""Of prod, which rolls out on two Deployments."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout that changes the size of /dev/shm since its last commit, which replaces all Triton pods."""
    made = clone(tmp_path)
    # A busy machine needs longer for a request; a refusal for this reason says nothing about the change.
    before = (made / LOCAL).read_text()
    (made / LOCAL).write_text(before.replace("sloP95Ms: 100", "sloP95Ms: 2000"))
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, "commit", "--quiet", "--all", "--message", "before"], cwd=made, check=True)
    return made


def enlarge(checkout: Path) -> None:
    change(checkout / VALUES / "local.yaml", "  size: 64Mi\n", "  size: 96Mi\n")
    change(checkout / VALUES / "base.yaml", "  size: 2Gi\n", "  size: 3Gi\n")


def state_of(stack: str, tmp_path: Path, checkout: Path) -> Path:
    """Write the state of a stack after an `up` of a checkout, in the format of the official providers."""
    with scratch.twin(TwinHome(tmp_path / stack), Console(stderr=True)) as servers:
        engine = dataclasses.replace(servers, program=checkout).engine()
        engine.read(stack, ["up", "--yes", "--skip-preview", "--non-interactive"], awaiting.WITHOUT)
        exported = engine.read(stack, ["stack", "export"])
    file = tmp_path / f"{stack}.json"
    file.write_text(json.dumps(as_official(json.loads(exported))))
    return file


def rehearsed(tmp_path: Path, checkout: Path, *options: str) -> tuple[int, dict[str, Any]]:
    twin = Twin(TwinHome(tmp_path / "home"), checkout)
    try:
        done = twin.run("rehearse", "--json", *options, seconds=UP_SECONDS)
        assert leftovers.scratch_twins(twin.home) == []
    finally:
        twin.down()
    return done.returncode, json.loads(done.stdout)


def judged(document: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(one["effect"], one["type"]) for one in document["findings"] if one["effect"] != "none"]
    assert document["errors"] == []
    return found


def none_is_lost(code: int, measured: dict[str, Any]) -> None:
    """Check that the change completed, and that each request was answered."""
    assert (code, measured["lost"], measured["reasons"], measured["away"], measured["ended"]) == (0, 0, {}, None, None)
    assert measured["sent"] == measured["answered"] > 100


@pytest.mark.timeout(2 * UP_SECONDS)
def test_what_serves_in_a_state_loses_no_request_where_its_pods_are_replaced_one_after_the_other(
    tmp_path: Path, checkout: Path
) -> None:
    state = state_of("prod", tmp_path, checkout)
    enlarge(checkout)
    code, document = rehearsed(tmp_path, checkout, "--state", str(state))
    measured, serving = document["measured"], document["serving"]
    assert (document["stack"], judged(document), document["not_measured"]) == ("prod", [("rolled", TEMPLATE)], None)
    assert (serving["changed"], serving["pods"]) == ([TRITON], {"triton-blue": {"made": 3, "kept": 3}})
    none_is_lost(code, measured)
    # The state also has the stack and its provider.
    unchanged = len(serving["made"]) + 1
    assert (measured["pods"], measured["kept"]) == (3, 0)
    assert measured["resources"] == {"same": unchanged, "update": 1}


@pytest.mark.timeout(2 * UP_SECONDS)
def test_the_only_pod_that_serves_in_a_state_is_away_while_it_is_replaced(tmp_path: Path, checkout: Path) -> None:
    state = state_of("dev", tmp_path, checkout)
    enlarge(checkout)
    code, document = rehearsed(tmp_path, checkout, "--state", str(state))
    measured = document["measured"]
    assert (document["stack"], judged(document)) == ("dev", [("interrupted", TEMPLATE)])
    assert (code, measured["ended"], measured["pods"], measured["kept"]) == (1, None, 1, 0)
    assert measured["sent"] == measured["answered"] + measured["lost"]
    assert measured["lost"] == sum(measured["reasons"].values()) >= measured["away"]["requests"] > 0
    assert measured["away"]["end"] - measured["away"]["begin"] > 1


@pytest.mark.timeout(2 * UP_SECONDS)
def test_a_state_whose_pods_are_replaced_one_after_the_other_is_judged_and_its_change_loses_no_request(
    tmp_path: Path, checkout: Path
) -> None:
    state = state_of("prod", tmp_path, checkout)
    enlarge(checkout)
    code, document = rehearsed(tmp_path, checkout, "--from", "HEAD", "--state", str(state))
    assert (document["stack"], judged(document), document["measured"]) == ("prod", [("rolled", TEMPLATE)], None)
    assert document["compared"] == {"differs": [], "errors": [], "made": [TRITON], "in_part": {}, "only_judged": []}
    local = document["under_load"]
    measured = local["measured"]
    assert (local["stack"], judged(local)) == ("local", [("rolled", TEMPLATE)])
    none_is_lost(code, measured)
    assert (measured["pods"], measured["kept"], measured["resources"]["update"]) == (2, 0, 1)


@pytest.mark.timeout(2 * UP_SECONDS)
def test_the_only_pod_that_is_replaced_interrupts_and_each_lost_request_is_counted(tmp_path: Path, checkout: Path) -> None:
    enlarge(checkout)
    code, document = rehearsed(tmp_path, checkout, "--from", "HEAD")
    measured = document["measured"]
    assert judged(document) == [("interrupted", TEMPLATE)]
    assert (code, measured["ended"]) == (1, None)
    assert measured["lost"] == sum(measured["reasons"].values()) > 0
    assert measured["sent"] == measured["answered"] + measured["lost"]
    assert measured["away"]["requests"] <= measured["lost"]
    assert measured["away"]["end"] - measured["away"]["begin"] > 1
    assert (measured["pods"], measured["kept"], measured["resources"]["update"]) == (1, 0, 1)
