"""The status as shown to users."""

from pathlib import Path

import pytest

from twin.commands import status
from twin.commands.status import Status

POD = {
    "namespace": "triton",
    "name": "triton-678b548486-7tc52-with-a-name-that-is-much-longer-than-a-narrow-terminal-is-wide-0123456789",
    "uid": "u",
    "node": "triton-local-nodes-pool-g5-group-39b90ef-0",
    "address": "10.244.234.3",
    "listens": "127.244.234.3",
    "phase": "Running",
    "status": "Running",
    "restarts": 0,
    "ready": True,
}
SIMULATED = {**POD, "name": "coredns", "listens": "", "address": ""}


def read(
    pods: list[dict[str, object]], agent: bool = True, answering: tuple[str, ...] = (), verbose: bool = False
) -> list[str]:
    found = Status(
        stack="local",
        release={"id": "27c6df8e1d35"},
        resources={"aws:ec2/subnet:Subnet": 6, "aws:ec2/vpc:Vpc": 1},
        processes=[{"name": "moto", "pid": 1, "running": True}, {"name": "agent", "pid": 2, "running": agent}],
        pods=pods,
        endpoints={"AWS (moto)": "http://127.0.0.1:1", "logs": "/h/logs"},
        last_inference=None,
        answering=list(answering),
    )
    return list(status.lines(found, verbose=verbose))


def test_resources_are_counted_and_listed_by_type_when_asked() -> None:
    first = "stack local, release 27c6df8e1d35, 7 resources"
    assert read([POD])[:2] == [first, ""]
    assert read([POD], verbose=True)[:4] == [first, "  6  aws:ec2/subnet:Subnet", "  1  aws:ec2/vpc:Vpc", ""]


def test_a_pods_names_are_whole_and_its_address_on_this_machine_is_there_ready_to_ask() -> None:
    lines = read([POD, SIMULATED], answering=("10.244.234.3", "10.244.234.9"))
    (row,) = [line.split() for line in lines if line.startswith(f"  triton     {POD['name']}")]
    assert row == ["triton", POD["name"], POD["node"], "10.244.234.3", "127.244.234.3", "Running", "yes", "0"]
    (row,) = [line.split() for line in lines if "coredns" in line]
    assert row[3:5] == ["-", "-"]
    assert [line.split(" -d ")[0] for line in lines if "curl" in line] == [
        "ask it: curl -s 127.244.234.3:8000/v2/models/pipeline/infer"
    ]


@pytest.mark.parametrize(("agent", "said"), [(True, []), (False, ["no longer running: agent"])])
def test_what_died_is_told(agent: bool, said: list[str]) -> None:
    found = [line.partition(";")[0] for line in read([{**POD, "ready": False}], agent) if "running:" in line]
    assert found == said


def test_a_crash_loop_is_shown_as_such_and_nobody_is_sent_to_ask_it(tmp_path: Path) -> None:
    lines = read([{**POD, "ready": False, "status": "CrashLoopBackOff", "restarts": 4}])
    (row,) = [line.split() for line in lines if "CrashLoopBackOff" in line]
    assert row[-2:] == ["no", "4"]
    assert not [line for line in lines if "curl" in line]
