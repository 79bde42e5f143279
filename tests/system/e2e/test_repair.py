"""The next `make up` continues after any kill or refusal."""

import contextlib
import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest

from tests.system.e2e import account
from tests.system.e2e.conftest import UP_SECONDS, Twin, clone
from tests.system.e2e.watched_end import WatchedEnd
from twin.engine import engine
from twin.host import processes

SAID = {
    "etcd": "started etcd\n",
    "kube-apiserver": "started kube-apiserver\n",
    "kube-controller-manager": "started kube-controller-manager\n",
    "kube-scheduler": "started kube-scheduler\n",
    "kwok": "started kwok\n",
    "agent": "started the agent (nodes, and Triton's pods)\n",
    "moto": "no `up` has finished with this AWS account (moto keeps it in memory, and loses it): making what it lacks\n",
}


@pytest.mark.parametrize(
    "names", [["etcd"], ["kube-apiserver"], ["kube-controller-manager", "kube-scheduler", "kwok", "agent"]], ids=", ".join
)
def test_killed_processes_are_told_and_repaired_by_the_next_up(twin: Twin, names: list[str]) -> None:
    _up_after_a_kill(twin, names)


def test_a_lost_account_has_the_models_again_before_a_pod_starts_on_its_machines(twin: Twin) -> None:
    """A Triton that started earlier would have exited, or would serve only part of the models."""
    _up_after_a_kill(twin, ["moto"])
    assert [pod.restarts for pod in twin.servers().cluster().pods() if pod.namespace == "triton"] == [0]


def _up_after_a_kill(twin: Twin, names: list[str]) -> None:
    killed = {name: _kill(twin, name) for name in names}
    said = twin.run("status").stdout.splitlines()[-1]
    assert [name for name in names if name in said] == names

    printed = twin.up()

    for name in names:
        repaired = processes.find(twin.home, name)
        assert repaired is not None and repaired.pid != killed[name].pid
        assert SAID[name] in printed
    assert "pipeline version 1 answered" in printed


def _kill(twin: Twin, name: str) -> processes.Record:
    record = processes.find(twin.home, name)
    assert record is not None, f"no process {name} is running"
    processes.signal_record(record, signal.SIGKILL)
    processes.wait_until(lambda: not record.alive(), f"{name} to be gone", 60)
    return record


def test_a_model_that_does_not_load_is_given_up_with_its_cause_and_mended_by_the_next_up(
    own_twin: Twin, tmp_path: Path
) -> None:
    checkout = clone(tmp_path)
    twin = dataclasses.replace(own_twin, checkout=checkout)
    model = checkout / "models" / "normalize" / "1" / "model.py"
    good = model.read_text()
    model.write_text(good + "\nraise RuntimeError('the weights are missing')\n")

    refused = twin.run("up", seconds=UP_SECONDS)

    assert refused.returncode == 1
    _, _, told = refused.stdout.partition("error: Triton does not start with release ")
    assert "failed to load 'normalize' version 1: Internal: RuntimeError: the weights are missing" in told
    (log,) = [line.partition("log: ")[2] for line in told.splitlines() if "log: " in line]
    assert "the weights are missing" in Path(log).read_text()

    model.write_text(good)
    assert "pipeline version 1 answered" in twin.up()


def test_an_up_that_is_killed_while_it_creates_is_continued_by_the_next(own_twin: Twin) -> None:
    state = own_twin.home.path / "state" / ".pulumi" / "stacks" / "triton-eks" / "local.json"
    with own_twin.start("up") as command:
        processes.wait_until(lambda: _is_creating(state), "the engine to be creating resources", UP_SECONDS, poll=0.1)
        command.kill()
        for pid in processes.marked(own_twin.home, engine.process_name("local")):
            with contextlib.suppress(ProcessLookupError):  # the plugins exit with their engine
                os.kill(pid, signal.SIGKILL)
    # A kill may also damage the checkpoint's attributes, which the engine writes in several steps.
    state.with_name("local.json.attrs").write_bytes(b"")

    assert "pipeline version 1 answered" in own_twin.up()
    assert processes.marked(own_twin.home, engine.process_name("local")) == {}
    assert "no changes" in own_twin.up()


def test_a_refused_create_leaves_the_state_true_and_the_next_up_continues(own_twin: Twin) -> None:
    assert own_twin.run("preview", "local").returncode == 0  # starts the account, creates nothing in it
    servers = own_twin.servers()
    eks = account.client(servers.aws_url, "eks")
    eks.create_cluster(
        name="triton-local",
        roleArn="arn:aws:iam::123456789012:role/somebody-elses",
        resourcesVpcConfig={"subnetIds": []},
    )

    refused = own_twin.run("up", seconds=UP_SECONDS)

    assert refused.returncode == 1
    assert "triton-local" in refused.stdout
    assert "Traceback" not in refused.stdout
    types = [r["type"] for r in servers.engine().resources("local")]
    assert "aws:ec2/vpc:Vpc" in types
    assert "aws:eks/cluster:Cluster" not in types

    eks.delete_cluster(name="triton-local")
    assert "pipeline version 1 answered" in own_twin.up()


def test_two_twins_run_side_by_side(twin: Twin, own_twin: Twin) -> None:
    own_twin.up()
    addresses = [t.servers().cluster().service_addresses("triton", "triton") for t in (twin, own_twin)]
    assert addresses[0] and addresses[1]
    assert set(addresses[0]).isdisjoint(addresses[1])
    urls = [t.servers().aws_url for t in (twin, own_twin)]
    assert urls[0] != urls[1]


def test_destroy_loses_no_request_and_leaves_nothing_in_the_account_nor_in_the_cluster(own_twin: Twin) -> None:
    own_twin.up()
    with WatchedEnd(own_twin.servers().cluster()) as seen:
        processes.wait_until(lambda: seen.outcomes["answered"] >= 20, "the clients to be answered", 60)
        done = own_twin.shell("pulumi destroy --yes --stack local --non-interactive")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(seen.outcomes) <= {"answered", "shed"}, seen.outcomes
    assert (seen.drained, seen.missed) == (True, set())
    servers = own_twin.servers()
    assert [r["type"] for r in servers.engine().resources("local") if r["type"] != "pulumi:pulumi:Stack"] == []
    assert account.leftovers(servers.aws_url) == {}
    namespaces = json.loads(own_twin.shell("kubectl get namespaces -o json").stdout)["items"]
    assert sorted(n["metadata"]["name"] for n in namespaces) == ["default", "kube-node-lease", "kube-public", "kube-system"]


def _is_creating(state: Path) -> bool:
    try:
        deployment = json.loads(state.read_text())["checkpoint"]["latest"]
    except (FileNotFoundError, ValueError, KeyError):
        return False
    operations = (deployment or {}).get("pending_operations") or []
    return any(operation["type"] == "creating" for operation in operations)
