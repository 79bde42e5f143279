"""The twin's program for the worker's container."""

import sys

import pytest

from tests.twin.charts.launches import launch
from twin.charts.triton_worker import WORKER
from twin.host.home import REPOSITORY
from twin.pods.pod_spec import SpecError

COMMAND = ["python", "-m", "worker"]
AWS = {"AWS_ENDPOINT_URL": "http://127.0.0.1:5000"}


def test_names_of_the_cluster_are_asked_of_the_twins_dns() -> None:
    url = "dns:///triton-headless.triton.svc.cluster.local:8001"
    started = WORKER.command(launch(*COMMAND, **AWS, WORKER_TRITON_URL=url))
    env = started.env
    assert started.argv == (sys.executable, "-m", "worker")
    assert env["WORKER_TRITON_URL"] == "dns://127.0.0.1:5353/triton-headless.triton.svc.cluster.local:8001"
    assert env["PYTHONPATH"] == str(REPOSITORY)


def test_names_of_fleets_are_asked_there_too() -> None:
    fleets = '{"classify": ["dns:///triton-a-headless.triton:8001", "dns:///triton-b-headless.triton:8001"]}'
    env = WORKER.command(launch(*COMMAND, **AWS, WORKER_TRITON_URL="dns:///t:1", WORKER_TRITON_FLEETS=fleets)).env
    assert env["WORKER_TRITON_FLEETS"] == fleets.replace("dns:///", "dns://127.0.0.1:5353/")


def test_addresses_stay_as_they_are() -> None:
    env = WORKER.command(launch(*COMMAND, **AWS, WORKER_TRITON_URL="ipv4:127.0.0.2:8001")).env
    assert env["WORKER_TRITON_URL"] == "ipv4:127.0.0.2:8001"


@pytest.mark.parametrize("url", ["", "https://sqs.us-west-2.amazonaws.com", "http://127.0.0.1.example.com:80"])
def test_a_worker_never_calls_the_real_aws(url: str) -> None:
    with pytest.raises(SpecError, match=r"would call the real AWS.*worker\.awsEndpoint"):
        WORKER.command(launch(*COMMAND, AWS_ENDPOINT_URL=url))


def test_another_command_is_not_the_worker() -> None:
    with pytest.raises(SpecError, match="not by 'sh -c true'"):
        WORKER.command(launch("sh", "-c", "true", **AWS))
