"""`modelctl rollout` as a person types it, on a twin with in-place rollouts on three pods."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.system.e2e import versions_in_turn
from tests.system.e2e.conftest import Twin
from tests.system.e2e.gateway_load import Ask, load
from tests.system.serving.rollout_releases import CONFIG, MODEL, code, golden
from twin.cluster.pod_addresses import loopback
from twin.engine import stack_files

STACK = "local"
PODS = 3
UP = ("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", STACK)
POOL = {"name": "g5", "instanceTypes": ["g5.xlarge"], "capacity": "on-demand", "min": 1, "desired": PODS, "max": PODS}


def _write_models(directory: Path, version: int, files: Mapping[str, str]) -> None:
    """Write a model repository with only this version."""
    for path in sorted(directory.glob(f"{MODEL}/*/*")):
        path.unlink()
    folder = directory / MODEL / str(version)
    for number in directory.glob(f"{MODEL}/*/"):
        number.rmdir()
    folder.mkdir(parents=True)
    (directory / MODEL / "config.pbtxt").write_text(CONFIG)
    for name, text in {"model.py": code(version), "golden.json": golden(version), **files}.items():
        (folder / name).write_text(text)


class Stack:
    """The twin's stack, with a model of this test."""

    def __init__(self, twin: Twin, directory: Path) -> None:
        self._twin = twin
        self._models = directory / "models"
        self._stacks = twin.home.path / "project" / "stacks"
        self._bucket = twin.servers().engine().outputs(STACK)["modelBucket"]

    def shell(self, command: str, seconds: float = 300) -> tuple[int, str, str]:
        done = self._twin.shell(command, seconds)
        return done.returncode, done.stdout, done.stderr

    def release(self, version: int, files: Mapping[str, str] | None = None, *, pin: bool = False) -> str:
        """Release a version, pin it if `pin` is set, and return its id."""
        _write_models(self._models, version, files or {})
        pins = f" --pin {stack_files.pins_file(self._twin.home, STACK)}" if pin else ""
        code_, said, errors = self.shell(f"python -m modelctl release {self._models} --bucket {self._bucket}{pins}")
        assert code_ == 0, errors
        return said.split()[0]

    def rollout(self, *arguments: str) -> tuple[int, str, str]:
        options = f"--bucket {self._bucket} --stack {STACK} --stacks {self._stacks} --watch-seconds 5"
        return self.shell(f"python -m modelctl rollout {' '.join(arguments)} {options}")

    def parity(self) -> tuple[int, str]:
        code_, said, _ = self.shell("python -m modelctl parity")
        return code_, said.splitlines()[-1]

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return Triton's pods that are not terminating, by UID."""
        _, said, _ = self.shell("kubectl get pods -n triton -o json")
        items = json.loads(said)["items"]
        return {item["metadata"]["uid"]: item for item in items if "deletionTimestamp" not in item["metadata"]}

    def served(self) -> dict[str, str]:
        _, said, _ = self.shell("kubectl get configmap -n triton triton-served-versions -o json")
        data: dict[str, str] = json.loads(said)["data"]
        return data

    def asking(self) -> Ask:
        """Send requests for the version published to clients, to each present pod in turn."""
        addresses = [loopback(pod["status"]["podIP"]) for pod in self.pods().values()]
        return versions_in_turn.asking(self._twin.servers().cluster().client, MODEL, addresses)

    def answers(self) -> list[float]:
        """Return each pod's answer to 1 in the version published to clients."""
        version = json.loads(self.served()[MODEL])["stable"]
        found = []
        for pod in self.pods().values():
            url = versions_in_turn.infer_url(loopback(pod["status"]["podIP"]), MODEL, version)
            answer = httpx.post(url, json=versions_in_turn.BODY, timeout=10, trust_env=False)
            assert answer.status_code == 200, f"{pod['metadata']['name']} answers {answer.text}"
            found.append(answer.json()["outputs"][0]["data"][0])
        return found


def restarts(pod: Mapping[str, Any]) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


@pytest.mark.timeout(2400)
def test_models_change_on_running_pods(own_twin: Twin, tmp_path: Path) -> None:
    own_twin.up()
    stack = Stack(own_twin, tmp_path)

    # From rolling to in-place: live/ is filled first, then new pods that read it replace the old ones.
    first = stack.release(1, pin=True)
    own_twin.pin("triton-eks:models.serving", {})
    code_, said, errors = stack.rollout(first)
    assert (code_, said) == (0, f"{first} fills live/: {MODEL} version 1; pods that start from now on serve it\n"), errors
    own_twin.pin("triton-eks:triton.rollout", "in-place")
    own_twin.pin("triton-eks:triton.replicas", PODS)
    own_twin.pin("triton-eks:gpu.pools", [{**POOL, "diskGiB": 200}])
    up = own_twin.run(*UP, seconds=900)
    assert up.returncode == 0, up.stdout
    code_, said, errors = stack.shell("kubectl rollout status deployment/triton -n triton --timeout=300s", seconds=320)
    assert code_ == 0, said + errors
    assert stack.answers() == [2.0] * PODS
    assert stack.parity() == (0, f"{PODS} pods serve the same")
    before = stack.pods()

    second = stack.release(2)
    code_, said, errors = stack.rollout(second)
    assert (code_, said) == (0, f"{second} serves: {MODEL} version 2\n"), errors
    assert stack.served() == {MODEL: '{"stable":2}'}
    assert stack.answers() == [3.0] * PODS
    assert set(stack.pods()) == set(before), "no pod was replaced"
    assert [restarts(pod) for pod in stack.pods().values()] == [0] * PODS

    broken = stack.release(3, {"model.py": "import nothing_of_that_name\n" + code(3)})
    code_, _, errors = stack.rollout(broken)
    assert code_ == 1
    assert f"error: undone, release {second} serves as before: triton-" in errors.splitlines()[-1]
    assert "No module named 'nothing_of_that_name'" in errors.splitlines()[-1]
    assert stack.answers() == [3.0] * PODS
    assert stack.parity() == (0, f"{PODS} pods serve the same")
    assert len(set(stack.pods()) - set(before)) == 1, "the pod whose load failed was replaced, and no other"

    code_, said, errors = stack.rollout("--back")
    assert (code_, said) == (0, f"{first} serves: {MODEL} version 1\n"), errors
    assert stack.answers() == [2.0] * PODS

    before = stack.pods()
    releases = [(version, stack.release(version)) for version in (4, 5)]
    with load(stack.asking(), rate=10) as account, ThreadPoolExecutor(3) as at_once:
        rollouts = [at_once.submit(stack.rollout, release) for _, release in releases]
        up = at_once.submit(own_twin.run, *UP, seconds=900).result()
        ends = [rollout.result() for rollout in rollouts]
    assert account.answered == account.sent > 30, dict(account.outcomes)
    assert up.returncode == 0, up.stdout
    ((version, _),) = [one for one, (code_, _, _) in zip(releases, ends, strict=True) if code_ == 0]
    ((_, _, errors),) = [end for end in ends if end[0] != 0]
    assert "live/: wait until that is done" in errors.splitlines()[-1] or "works on live/" in errors.splitlines()[-1], errors
    assert stack.served() == {MODEL: f'{{"stable":{version}}}'}
    assert stack.answers() == [1.0 + version] * PODS
    assert stack.parity() == (0, f"{PODS} pods serve the same")
    assert {uid: restarts(pod) for uid, pod in stack.pods().items()} == {uid: restarts(pod) for uid, pod in before.items()}
