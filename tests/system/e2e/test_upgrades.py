"""docs/upgrades.md on the twin: runs its commands unchanged, under a load that must lose no request.

If a block of the page changes a stack file, the test changes this twin's copy.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from spec.versions import KUBERNETES
from stackctl.review import consequences
from tests.system.e2e import pinned
from tests.system.e2e.conftest import Twin
from tests.system.upgrade import release
from tests.system.upgrade.comparison import Finding, findings
from twin.host import processes
from twin.host.home import REPOSITORY

STACK = "local"
OLD, NEW = pinned.OLD_KUBERNETES["triton-eks:cluster.version"], "1.35"
PAGE = (REPOSITORY / "docs" / "upgrades.md").read_text()
_BLOCK = re.compile(r"^```(yaml|sh) on-twin\n(.*?)^```$", re.M | re.S)
_LOAD_SECONDS = 3000
_STEP_SECONDS = 900.0
_ALL_ANSWERED = re.compile(r"^(\d+) requests: (\d+) answered, 0 failed;", re.M)


def steps(heading: str) -> list[tuple[str, str]]:
    """Return the blocks below a heading of the page, in order: their language and their text."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [(match[1], match[2]) for match in _BLOCK.finditer(section)]


class Stack:
    """The twin's stack, changed as the page says."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    def follow(self, step: tuple[str, str]) -> str:
        """Run one block, and return the output of its commands."""
        language, text = step
        if language == "yaml":
            for section, changed in yaml.safe_load(text).items():
                for key, value in changed.items():
                    self._twin.pin(f"{section}.{key}", value)
            return ""
        done = self._twin.shell(f"{{ set -euo pipefail\n{text}}}", seconds=_STEP_SECONDS)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def versions(self) -> dict[str, str]:
        """Return the versions of the control plane and of the resources that EKS pins with it, by resource name."""
        found = {}
        for resource in self._twin.servers().engine().resources(STACK):
            outputs = resource.get("outputs", {})
            if resource["type"] in ("aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"):
                found[resource["urn"].rpartition("::")[2]] = outputs.get("releaseVersion") or outputs["version"]
            elif resource["type"] == "aws:eks/addon:Addon":
                found[outputs["addonName"]] = outputs["addonVersion"]
        return found

    def items(self, kind: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self._twin.shell(f"kubectl get {kind} -A -o json").stdout)["items"]
        return listed

    def nodes(self, pool: str) -> set[str]:
        """Return the nodes of a pool that are Ready."""
        return {
            node["metadata"]["name"]
            for node in self.items("nodes")
            if node["metadata"]["labels"].get("triton-eks/pool") == pool
            and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        }

    def cordoned(self) -> set[str]:
        """Return the nodes that accept no new pods."""
        return {node["metadata"]["name"] for node in self.items("nodes") if node["spec"].get("unschedulable")}

    def triton(self) -> dict[str, str]:
        """Return Triton's pods that are not terminating: UID -> node."""
        return {
            pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")
            for pod in self.items("pods")
            if pod["metadata"]["namespace"] == "triton" and "deletionTimestamp" not in pod["metadata"]
        }


@contextmanager
def load(twin: Twin, log: Path) -> Iterator[None]:
    """Send five inferences a second; all of them must be answered."""
    command = [sys.executable, "-m", "twin", "load", "--rate", "5", "--seconds", str(_LOAD_SECONDS), "--model", "pipeline"]
    with log.open("w") as output:
        environment = twin.environment()
        sender = subprocess.Popen(command, cwd=twin.checkout, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
        assert sender.poll() is None, f"the load has ended before the upgrade: {log.read_text()}"
    finally:
        sender.send_signal(signal.SIGINT)
        code = sender.wait(60)
    said = log.read_text()
    answered = _ALL_ANSWERED.search(said)
    assert code == 0 and answered is not None and answered[1] == answered[2], said
    assert int(answered[1]) > 100, said


def expected(version: str, names: Iterable[str]) -> dict[str, str]:
    """Return the expected pins for a version. The stack chooses its add-ons (`names`)."""
    pins = KUBERNETES[version]
    groups = dict.fromkeys(("nodes-system-group", "nodes-pool-g5-group"), pins.ami_release)
    addons = {name: pins.addons[name] for name in names if name in pins.addons}
    return {**addons, **groups, "cluster-control-plane-eksCluster": version}


@pytest.mark.timeout(5400)
def test_a_minor_version_and_another_gpu_pool_under_load(own_twin: Twin, tmp_path: Path) -> None:
    for key, value in pinned.OLD_KUBERNETES.items():
        own_twin.pin(key, value)
    own_twin.up()
    stack = Stack(own_twin)
    at_first = stack.versions()
    assert {"coredns", "kube-proxy", "vpc-cni"} <= set(at_first)
    assert at_first == expected(OLD, at_first)
    before = stack.triton()
    assert set(before.values()) <= stack.nodes("g5") and len(before) == 2

    with load(own_twin, tmp_path / "load.txt"):
        look, new_version, upgrade = steps("The Kubernetes version")
        assert "triton" in stack.follow(look)
        stack.follow(new_version)
        stack.follow(upgrade)
        assert stack.versions() == expected(NEW, at_first)
        assert stack.triton() == before, "the version of the control plane is none of Triton's business"

        add, make, look, pool, move, old_pool, move_back, empty, refill, remove, take = steps("Blue and green GPU pools")
        stack.follow(add)
        stack.follow(make)
        # EKS has created a group when its nodes have joined; the twin's nodes join a second later.
        processes.wait_until(lambda: len(stack.nodes("g5-green")) == 2, "the nodes of the new pool to join", 300, poll=1)
        assert stack.follow(look).splitlines()[-1].split() == ["1", "1"], "GPUs of each node"
        green = stack.nodes("g5-green")
        stack.follow(pool)
        stack.follow(move)
        moved = stack.triton()
        assert not set(moved) & set(before) and len(moved) == 2
        assert set(moved.values()) <= green
        stack.follow(old_pool)
        stack.follow(move_back)
        assert set(stack.triton().values()) <= stack.nodes("g5"), "the way back"
        stack.follow(pool)
        stack.follow(move)
        after = stack.triton()
        assert set(after.values()) <= green and len(after) == 2
        stack.follow(empty)
        assert stack.triton() == after, "Triton had moved before"
        assert stack.cordoned() == stack.nodes("g5")
        stack.follow(refill)
        assert stack.cordoned() == set()
        stack.follow(empty)
        stack.follow(remove)
        stack.follow(take)
        processes.wait_until(lambda: not stack.nodes("g5"), "the nodes of the old pool to be gone", 300, poll=1)
        assert stack.triton() == after

    assert "nodes-pool-g5-group" not in stack.versions()
    assert "nodes-pool-g5-green-group" in stack.versions()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_the_engine_loses_of_the_recorded_release_what_is_told(twin: Twin, stack: str) -> None:
    """tests/system/upgrade reports only causes; the engine also reports the dependents of a replacement."""
    revision = release.revision()
    needs(revision)
    done = twin.run("preview", stack, "--against", revision, "--json", seconds=_STEP_SECONDS)
    assert done.returncode == 0, done.stdout
    lost: dict[str, set[str]] = {"replace": set(), "delete": set()}
    for step in json.loads(done.stdout)["steps"]:
        action = "replace" if "replace" in step["op"] else step["op"]
        if action in lost and step["type"] in consequences.types():
            lost[action].add(f"{step['urn'].rpartition('::')[2]} ({step['type']})")
    told = {action: {one.resource for one in differences(stack) if one.action == action} for action in lost}
    assert lost["delete"] == told["delete"]
    assert lost["replace"] >= told["replace"] and bool(lost["replace"]) == bool(told["replace"]), lost


def differences(stack: str) -> list[Finding]:
    return findings(release.recorded(stack), release.present(stack))


def needs(revision: str) -> None:
    """Fail in CI, or skip elsewhere, if the clone lacks the revision. A shallow clone in CI would skip the test for ever."""
    known = subprocess.run(["git", "cat-file", "-e", revision], cwd=REPOSITORY, capture_output=True, check=False)
    if known.returncode != 0:
        missing = f"the history of this checkout does not have {revision}"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}: CI has to check out all of it (fetch-depth: 0)")
        pytest.skip(missing)


def test_ci_without_the_history_fails_and_others_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "0" * 40
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="fetch-depth: 0"):
        needs(nowhere)
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=nowhere):
        needs(nowhere)
