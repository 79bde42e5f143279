"""`modelctl rollout` and `modelctl parity` from the command line, without a cluster."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout import command
from modelctl.rollout.fleet import FleetError
from modelctl.rollout.parity import PodState
from tests.command import Ended, run
from tests.infra.test_fetcher import LOCAL
from tests.modelctl.rollout.idle_fleet import IdleFleet
from tests.paths import ROOT
from tests.spec.stack_config import settings

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: dead
contexts: [{name: dead, context: {cluster: dead, user: dead}}]
clusters: [{name: dead, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: dead, user: {}}]
"""


@pytest.fixture(autouse=True)
def _a_cluster_that_is_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


def _run(*arguments: str) -> Ended:
    return run("modelctl", *arguments)


def _rollout(*arguments: str) -> Ended:
    return _run("rollout", "--bucket", "b" * 5, "--stacks", str(ROOT / "stacks"), "--stack", "local", *arguments)


@pytest.mark.parametrize("arguments", [[], ["0123456789ab" + 52 * "0", "--back"]])
def test_either_a_release_or_back(arguments: list[str]) -> None:
    done = _rollout(*arguments)
    assert (done.exit_code, done.stderr) == (2, "error: name either a release or --back\n")


@pytest.mark.parametrize("steps", ["5%", "25,5,100", "5,5,100", "0%,100%", "half,100%", "5%,101%", ""])
def test_canary_steps_ascend_to_all_requests(steps: str) -> None:
    done = _rollout("0123456789ab" + 52 * "0", "--canary", steps)
    assert done.exit_code == 2
    assert done.stderr == (f"error: --canary {steps!r}: write ascending percentages that end with 100%, like 5%,25%,100%\n")


def test_a_stack_without_a_file_is_named() -> None:
    done = _run("rollout", "--bucket", "b" * 5, "--stacks", "nowhere", "--stack", "local", "0123456789ab" + 52 * "0")
    assert (done.exit_code, done.stderr) == (2, "error: nowhere/Pulumi.local.yaml: there is no such file; check the path\n")


@pytest.mark.parametrize(("given", "follows"), [(LOCAL, True), ({}, False)])
@pytest.mark.parametrize("fleets", [{}, {"fleets": [{"name": "one", "models": ["resnet50"]}]}])
def test_pods_are_asked_what_is_on_their_disks_where_they_serve_from_them(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], fleets: dict[str, Any], follows: bool
) -> None:
    asked = []

    def fleet(*_: str | None, follows: bool) -> None:
        asked.append(follows)
        raise FleetError("no cluster here")

    read = settings({**given, **fleets, "triton.rollout": "in-place"})
    monkeypatch.setattr(command, "load_stack_file", lambda _: read)
    monkeypatch.setattr(command, "Lease", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(command, "_fleet", fleet)
    assert _rollout("0123456789ab" + 52 * "0").stderr == "error: no cluster here; run the same command again, it goes on\n"
    assert asked == [follows]


def test_a_stack_file_without_a_release_has_nothing_to_watch() -> None:
    file = ROOT / "stacks" / "Pulumi.local.yaml"
    done = _run("watch", "--bucket", "b" * 5, "--file", str(file))
    said = f"error: {file}: pins no release of a stack; name a file like stacks/Pulumi.prod.yaml that does\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_pods_are_not_alike(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.setattr(command, "_fleet", lambda *_, **__: IdleFleet([]))
    done = _run("parity", *options)
    said = "error: no pods of Triton in namespace triton, so there is nothing to compare\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("fleets", "said"),
    [
        (["triton", "triton"], "2 pods serve the same"),
        (["triton-a", "triton-b", "triton-a"], "the pods of each fleet serve the same: triton-a 2, triton-b 1"),
    ],
)
def test_pods_that_are_alike_are_counted_by_fleet(monkeypatch: pytest.MonkeyPatch, fleets: list[str], said: str) -> None:
    found = [PodState(fleet, f"pod-{index}") for index, fleet in enumerate(fleets)]
    monkeypatch.setattr(command, "_fleet", lambda *_, **__: IdleFleet([]))
    monkeypatch.setattr(command.fleet_parity, "states", lambda _: found)
    done = _run("parity")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, said)


def test_a_file_of_requests_that_is_not_there_is_named() -> None:
    done = _rollout("0123456789ab" + 52 * "0", "--replay", "nowhere.jsonl")
    assert (done.exit_code, done.stderr) == (2, "error: nowhere.jsonl: there is no such file; check the path\n")


def test_a_cluster_that_is_down_is_a_sentence() -> None:
    done = _run("parity")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: the cluster at http://127.0.0.1:9 cannot be reached: ")
    assert "Traceback" not in done.output


def test_no_cluster_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    done = _run("parity")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: no cluster is configured (")
    assert "set KUBECONFIG, or run `aws eks update-kubeconfig`" in done.stderr


def test_an_address_to_serve_at_has_a_port() -> None:
    done = _run("parity", "--serve", "127.0.0.1")
    assert done.exit_code == 2
    assert done.stderr == "error: --serve '127.0.0.1' is no address; write ADDRESS:PORT, like 0.0.0.0:9108\n"


def test_neither_a_kubeconfig_nor_a_cluster_around_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = _run("parity", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no cluster is configured (Service host/port is not set.): set KUBECONFIG")
