"""In-place rollouts on pods with releases on their own disks, in two fleets, by the commands that a person runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spec.names import CURRENT_RELEASE, TRITON_NAMESPACE
from tests.system.e2e import account, pinned, versions_in_turn
from tests.system.e2e.conftest import Twin, taken_down
from tests.system.e2e.gateway_load import ANSWERED, Ask, load
from tests.system.serving.rollout_releases import CONFIG, code, golden
from twin.cluster.kube_api import KubeClient, object_path
from twin.cluster.pod_addresses import loopback
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import TwinHome

pytestmark = pytest.mark.timeout(3600)
STACK = "local"
FLEETS = {"triton-g5": ("left", "shared"), "triton-g6": ("right", "shared")}
PODS = {"triton-g5": 2, "triton-g6": 1}
FIRST, SECOND = {"left": 1, "right": 1, "shared": 1}, {"left": 2, "right": 1, "shared": 2}


class InPlace(Twin):
    """Two fleets; each has one model of its own and a shared one."""

    def command(self, line: str, expected: int = 0) -> tuple[str, str]:
        """Run a command line, and return its standard output and error."""
        done = self.shell(line)
        assert done.returncode == expected, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout, done.stderr

    def bucket(self) -> str:
        return str(self.servers().engine().outputs(STACK)["modelBucket"])

    def release(self, folder: Path, versions: dict[str, int], *, pin: bool = False) -> str:
        for name, version in versions.items():
            own = folder / name / str(version)
            own.mkdir(parents=True)
            (own.parent / "config.pbtxt").write_text(CONFIG)
            (own / "model.py").write_text(code(version))
            (own / "golden.json").write_text(golden(version))
        pins = f" --pin {stack_files.pins_file(self.home, STACK)}" if pin else ""
        said, _ = self.command(f"{sys.executable} -m modelctl release {folder} --bucket {self.bucket()}{pins}")
        return said.split()[0]

    def rollout(self, what: str, expected: int = 0) -> tuple[str, str]:
        stacks = self.home.path / "project" / "stacks"
        options = f"--bucket {self.bucket()} --stack {STACK} --stacks {stacks} --watch-seconds 5"
        return self.command(f"{sys.executable} -m modelctl rollout {what} {options}", expected)

    def kube(self) -> KubeClient:
        return self.servers().cluster().client

    def pods(self) -> list[dict[str, Any]]:
        found = self.kube().get(object_path("v1", "pods", TRITON_NAMESPACE))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"] and _fleet(pod) in FLEETS]

    def on_disk(self) -> dict[str, list[set[str]]]:
        """Return, by fleet, the versions of models on the disk of each pod, and the releases there."""
        found: dict[str, list[set[str]]] = {name: [] for name in FLEETS}
        for pod in self.pods():
            disk = self.home.pods / pod["metadata"]["uid"] / "volumes" / "models"
            versions = {f"{path.parent.name} {path.name}" for path in (disk / CURRENT_RELEASE).glob("*/[0-9]*")}
            found[_fleet(pod)].append(versions | {path.name for path in (disk / "releases").iterdir()})
        return found

    def asking(self, model: str) -> Ask:
        """Send requests for the version published to clients, to each pod of the model's fleets in turn."""
        addresses = [loopback(pod["status"]["podIP"]) for pod in self.pods() if model in FLEETS[_fleet(pod)]]
        return versions_in_turn.asking(self.kube(), model, addresses)

    def until_ready(self) -> None:
        def ready() -> bool:
            conditions = [pod.get("status", {}).get("conditions") or [] for pod in self.pods()]
            each = [any(one["type"] == "Ready" and one["status"] == "True" for one in of) for of in conditions]
            return each == [True] * sum(PODS.values())

        processes.wait_until(ready, "all pods to be ready", 180)


def _fleet(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get("app.kubernetes.io/instance", ""))


def _alike(of: dict[str, set[str]]) -> dict[str, list[set[str]]]:
    """Return the value that is the same on each pod of a fleet."""
    return {name: [of[name]] * PODS[name] for name in FLEETS}


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[InPlace]:
    with taken_down(InPlace(TwinHome(tmp_path / "home"))) as twin:
        twin.up()
        yield twin


def test_each_fleet_gets_the_next_release_beside_the_one_that_serves_and_no_request_is_lost(
    twin: InPlace, tmp_path: Path
) -> None:
    twin.pin("triton-eks:models.serving", {})
    first = twin.release(tmp_path / "first", FIRST, pin=True)
    assert twin.rollout(first)[0].startswith(f"{first} fills live/: ")
    for key, value in pinned.FLEETS_IN_PLACE.items():
        twin.pin(key, value)
    twin.command(f"pulumi up --stack {STACK} --yes --skip-preview --non-interactive")
    twin.until_ready()
    # live/ and each disk have all models; a server loads the models of its fleet.
    have = {"left 1", "right 1", "shared 1", first}
    assert twin.on_disk() == _alike(dict.fromkeys(FLEETS, have))
    before = {pod["metadata"]["uid"] for pod in twin.pods()}

    second = twin.release(tmp_path / "second", SECOND)
    with load(*map(twin.asking, FIRST), rate=5) as account_:
        said, told = twin.rollout(second)
    assert account_.answered == account_.sent > 30, dict(account_.outcomes)
    assert said == f"{second} serves: left version 2, shared version 2\n"
    have = {"left 2", "right 1", "shared 2", second}
    processes.wait_until(lambda: twin.on_disk() == _alike(dict.fromkeys(FLEETS, have)), f"{first} to go", 30)
    fetched = [number for number, line in enumerate(told.splitlines()) if "has fetched" in line]
    loaded = [number for number, line in enumerate(told.splitlines()) if "loaded" in line]
    assert len(fetched) == sum(PODS.values()), told
    assert max(fetched) < min(loaded), "every pod has the files, then one loads"

    third = twin.release(tmp_path / "third", {"left": 3, "right": 3, "shared": 3})
    s3 = account.client(twin.servers().aws_url, "s3")
    key = f"releases/{third}/right/3/model.py"
    content = s3.get_object(Bucket=twin.bucket(), Key=key)["Body"].read()
    s3.put_object(Bucket=twin.bucket(), Key=key, Body=content[:-1] + b"#")
    _, errors = twin.rollout(third, expected=1)
    assert f"error: undone, release {second} serves as before: " in errors.splitlines()[-1], errors
    assert "right/3/model.py" in errors.splitlines()[-1]
    assert "loaded" not in errors
    assert [ask() for ask in map(twin.asking, FIRST)] == [ANSWERED] * 3

    statuses = [one for pod in twin.pods() for one in pod["status"]["containerStatuses"]]
    assert {pod["metadata"]["uid"] for pod in twin.pods()} == before, "no pod was replaced"
    assert {one["restartCount"] for one in statuses} == {0}

    (gone,) = [pod["metadata"] for pod in twin.pods() if _fleet(pod) == "triton-g6"]
    twin.command(f"kubectl delete pod --namespace {TRITON_NAMESPACE} {gone['name']}")
    twin.until_ready()
    assert twin.asking("right")() == twin.asking("shared")() == ANSWERED

    said, _ = twin.rollout("--back")
    assert said.startswith(f"{first} serves: ")
    assert [ask() for ask in map(twin.asking, FIRST)] == [ANSWERED] * 3
    parity, _ = twin.command(f"{sys.executable} -m modelctl parity")
    assert parity.splitlines()[-1] == "the pods of each fleet serve the same: triton-g5 2, triton-g6 1"
