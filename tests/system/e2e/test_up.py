"""`make up` and a person's next steps."""

import json
import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml

from tests.system.e2e import account
from tests.system.e2e.conftest import Twin
from twin.aws.faults import DELAYS
from twin.commands import inference
from twin.host import processes
from twin.plugins import kubeconfig

ANSWER = re.compile(
    r"^pipeline version 1 answered CLASS \[\d\], SCORES \[.+\] in [\d.]+ ms \(127\.244\.\d+\.\d+:8001, gRPC\)$", re.M
)


def test_up_ends_with_the_answer_of_a_real_inference_and_says_how_to_go_on(twin: Twin) -> None:
    printed = twin.up()
    assert ANSWER.search(printed), printed
    assert '\ntext_in_picture read in a picture of "Triton on EKS": Triton on EKS\n' in printed
    assert "Where things are:" in printed
    assert 'eval "$(python3 -m twin env)"' in printed


def test_a_second_up_changes_nothing(twin: Twin) -> None:
    printed = twin.up()
    assert re.search(r"^\s+\d+ unchanged$", printed, re.M), printed
    assert not re.search(r"\d+ (created|updated|deleted|replaced)", printed), printed


def test_status_says_what_there_is_for_programs(twin: Twin) -> None:
    status = json.loads(twin.run("status", "--json").stdout)
    assert status["stack"] == "local"
    assert re.fullmatch(r"[0-9a-f]{64}", status["release"]["id"])
    assert status["resources"]["aws:ec2/vpc:Vpc"] == 1
    # Triton, and the worker of its queue.
    assert status["resources"]["kubernetes:apps/v1:Deployment"] == 2
    triton = [pod for pod in status["pods"] if pod["namespace"] == "triton"]
    assert [pod["ready"] for pod in triton] == [True]
    assert triton[0]["address"].startswith("10.244.") and triton[0]["node"]
    assert triton[0]["listens"] == "127." + triton[0]["address"].removeprefix("10.")
    assert [p["name"] for p in status["processes"] if not p["running"]] == []
    assert status["last_inference"]["model"] == "pipeline"
    assert status["endpoints"]["kubeconfig"].endswith("kubeconfig")


def test_resources_are_counted_the_same_everywhere(twin: Twin) -> None:
    counted = sum(json.loads(twin.run("status", "--json").stdout)["resources"].values())
    assert json.loads(twin.run("preview", "local", "--json").stdout)["summary"] == {"same": counted}
    assert re.search(rf"^\s+{counted} unchanged$", twin.run("preview", "local").stdout, re.M)
    assert re.search(rf"^stack local, release [0-9a-f]{{64}}, {counted} resources$", twin.run("status").stdout, re.M)


def test_the_status_has_a_line_that_asks_the_model(twin: Twin) -> None:
    (line,) = [line for line in twin.run("status").stdout.splitlines() if line.startswith("ask it: ")]

    def answered() -> Any:
        """Return the outputs; None while the queue refuses the request, as it may on a busy machine."""
        answer = subprocess.run(shlex.split(line.removeprefix("ask it: ")), capture_output=True, check=True, timeout=60)
        return json.loads(answer.stdout).get("outputs")

    outputs = {output["name"]: output["data"] for output in processes.wait_until(answered, "an answer", 60)}
    assert outputs == {"SCORES": [1.25, -1.5, 1.0], "CLASS": [0]}


def test_the_answer_is_the_models_own_arithmetic(twin: Twin) -> None:
    addresses = twin.servers().cluster().service_addresses("triton", "triton")
    answer = inference.infer(addresses[0])
    assert answer.outputs == {"SCORES": [1.25, -1.5, 1.0], "CLASS": [0]}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pulumi preview --stack local --non-interactive", "unchanged"),
        ("kubectl get pods -A -o wide", "triton-"),
        ("aws s3 ls", "model"),
        ("helm list --all-namespaces", "NAMESPACE"),
        ("python3 -m stackctl cold-start local --measured", "the pods that were looked at took "),
    ],
)
def test_the_twins_shell_talks_to_the_twin(twin: Twin, command: str, expected: str) -> None:
    done = twin.shell(command)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_the_shell_is_what_it_was_after_leaving_it(twin: Twin) -> None:
    done = twin.shell("leave_twin && echo ${KUBECONFIG:-none} ${AWS_ENDPOINT_URL:-none} $TWIN_HOME")
    assert done.stdout == f"none none {twin.home.path}\n"


def test_a_worker_that_starts_before_its_association_takes_effect_becomes_ready_after_it(twin: Twin) -> None:
    """It has its chart's environment and token. Its readiness depends on an answer of the queue."""
    cluster = kubeconfig.connect(yaml.safe_load(twin.home.kubeconfig.read_text()))
    ssm = account.client(twin.servers().aws_url, "ssm")
    pods, log = "/api/v1/namespaces/triton-worker/pods", twin.home.logs / "agent.log"

    def ready() -> dict[str, bool]:
        """Return whether a worker is ready, by the id of its pod, without terminating pods."""
        return {
            pod["metadata"]["uid"]: any(one["type"] == "Ready" and one["status"] == "True" for one in conditions(pod))
            for pod in cluster.get(pods)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def conditions(pod: Any) -> Any:
        return pod.get("status", {}).get("conditions", [])

    (before,) = ready()
    (name,) = [pod["metadata"]["name"] for pod in cluster.get(pods)["items"] if pod["metadata"]["uid"] == before]
    refusals = log.read_text().count("no association of triton-worker/triton-worker is known")
    ssm.put_parameter(Name=DELAYS, Value="pod-identity=86400", Type="String")
    try:
        cluster.delete(f"{pods}/{name}")
        refused = "no association of triton-worker/triton-worker is known"
        processes.wait_until(lambda: log.read_text().count(refused) > refusals, "a worker without credentials", 120)
        processes.wait_until(lambda: before not in ready() and len(ready()) == 1, "the new worker", 120)
        (started,) = ready()
        assert ready() == {started: False}
    finally:
        ssm.delete_parameter(Name=DELAYS)
    processes.wait_until(lambda: ready() == {started: True}, "the same pod to be ready", 300)
