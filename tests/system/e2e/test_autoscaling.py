"""`make up AUTOSCALING=1` and its effects: pods follow a load, and workers follow a queue."""

import pytest

from infra.platform.dashboards.scaling import scaling
from tests.system.e2e.conftest import UP_SECONDS, Twin
from tests.system.e2e.load_summary import ANSWERED, CHANGE, READY, STARTS
from tests.system.e2e.monitored import Monitored
from twin.engine import stack_files
from twin.host import processes
from twin.load.messages import Queue

# KEDA's operator and Prometheus's may have to be built first.
pytestmark = pytest.mark.timeout(5400)
_LOAD_SECONDS = 2400.0
WITHOUT_A_SOURCE = {
    "Replicas": "kube-state-metrics",
    "Autoscaler": "kube-state-metrics",
    "Signal per pod": "kube-state-metrics",
    "Blind": "kube-state-metrics",
    "Nodes by pool": "kube-state-metrics",
    "Where the time of a start went": "kube-state-metrics",
    "Time to ready": "kube-state-metrics",
    "Model load time": "servers from 24.11 on; that of the twin is 2.51",
}
"""The panels of the scaling dashboard that stay empty on the twin, with the missing data.

"Waiting and executing" has data. "Pods without a node" shows its own 0 if kube-state-metrics has no value.
"""


def scaled_objects(twin: Twin) -> str:
    done = twin.shell("kubectl get scaledobjects -A --ignore-not-found -o name")
    return done.stdout + done.stderr


def test_pods_follow_a_load_and_workers_a_queue(own_twin: Twin) -> None:
    up = own_twin.run("up", "--autoscaling", seconds=2 * UP_SECONDS)
    assert up.returncode == 0, up.stdout
    assert "python3 -m twin load --rate 30 --seconds 120" in up.stdout
    assert "scaledobject.keda.sh/triton" in scaled_objects(own_twin)

    load = own_twin.run("load", "--rate", "30", "--seconds", "120", seconds=_LOAD_SECONDS)
    print(load.stdout)  # the load's figures: `pytest -rP` shows them
    assert load.returncode == 0, load.stdout
    answered = ANSWERED.search(load.stdout)
    assert answered is not None, load.stdout
    assert answered[1] == answered[2] and int(answered[1]) > 3000
    pods = READY.search(load.stdout)
    assert pods is not None, load.stdout
    assert pods[1] == pods[3] == "1" and int(pods[2]) > 1, load.stdout
    seconds_of_two = [int(at) for at, ready in CHANGE.findall(load.stdout) if int(ready) > 1]
    assert seconds_of_two[0] < 120, f"the second pod was not ready before the load was over:\n{load.stdout}"
    assert STARTS.search(load.stdout), load.stdout
    assert Monitored(own_twin.home).blank(scaling()) == WITHOUT_A_SOURCE.keys()
    plot = load.stdout.splitlines()[-1].removeprefix("plot: ")
    assert plot.startswith(str(own_twin.home.path)) and plot.endswith(".svg")

    servers = own_twin.servers()
    queue = Queue(servers.aws_url, "us-west-2", servers.engine().outputs(stack_files.STACK))
    assert queue.answered("timed_batch") == set()
    # test_keda.py shows that workers scale to zero again; it takes KEDA's five minutes and the HorizontalPodAutoscaler's.
    load = own_twin.run("load", "--sqs", "--rate", "10", "--seconds", "60", "--follow", "0", seconds=_LOAD_SECONDS)
    assert load.returncode == 0, load.stdout
    answered, workers = ANSWERED.search(load.stdout), READY.search(load.stdout)
    assert answered is not None and workers is not None, load.stdout
    assert int(answered[1]) == int(answered[2])
    # One result for each message. On a busy machine a retried send is another message.
    assert len(queue.answered("timed_batch")) >= int(answered[1])
    assert workers[1] == "0" and int(workers[2]) > 0, load.stdout
    assert queue.waiting() == 0

    plain = own_twin.up()
    assert "python3 -m twin load" not in plain
    # KEDA set it before it was removed: see docs/autoscaling.md#back-to-a-fixed-number.
    replicas = own_twin.shell(
        "kubectl get deployments -A -o jsonpath='{range .items[*]}{.metadata.name}={.spec.replicas} {end}'"
    )
    assert {"triton=1", "triton-worker=1"} <= set(replicas.stdout.split()), replicas.stdout
    processes.wait_until(lambda: "scaledobject" not in scaled_objects(own_twin), "autoscaling to be gone", 120, poll=2)
    pods_now = own_twin.shell("kubectl get deployments -A -o name").stdout
    assert "keda" not in pods_now and "prometheus" not in pods_now
    again = own_twin.run("load", "--rate", "5", "--seconds", "3")
    assert again.returncode == 0, again.stdout
    assert "nothing scales here: `make up AUTOSCALING=1` adds what does" in again.stdout
