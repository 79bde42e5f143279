"""The twin's program for containers that fetch releases."""

import sys

import pytest

from tests.twin.charts.launches import launch
from twin.charts.modelctl import COMPARER, MODELCTL
from twin.charts.registry import POD_PROGRAMS
from twin.host.home import REPOSITORY
from twin.pods.pod_spec import SpecError
from twin.pods.program import PodProgram

FETCH = ["python", "-m", "modelctl", "fetch", "3f2a9c1b7d04" + 52 * "0", "--bucket=models", "--to=/volumes/models"]


@pytest.mark.parametrize("words", [FETCH, [*FETCH[:3], "follow", "--bucket=models", "--to=/volumes/models"]])
def test_it_is_modelctl_of_this_checkout(words: list[str]) -> None:
    started = MODELCTL.command(launch(*words, "--endpoint-url=http://127.0.0.1:5000", AWS_REGION="us-west-2"))
    assert started.argv == (sys.executable, *words[1:], "--endpoint-url=http://127.0.0.1:5000")
    assert started.env["PYTHONPATH"] == str(REPOSITORY)
    assert started.env["AWS_REGION"] == "us-west-2"


@pytest.mark.parametrize("endpoint", [[], ["--endpoint-url=https://s3.us-west-2.amazonaws.com"]])
def test_it_never_calls_the_real_aws(endpoint: list[str]) -> None:
    with pytest.raises(SpecError, match=r"would call the real AWS.*models\.s3Endpoint"):
        MODELCTL.command(launch(*FETCH, *endpoint))


def test_another_command_is_not_run() -> None:
    with pytest.raises(SpecError, match="not as 'python -m modelctl parity'"):
        MODELCTL.command(launch("python", "-m", "modelctl", "parity"))


def test_a_pod_of_modelctl_alone_is_simulated() -> None:
    pod = {"spec": {"containers": [{"name": "parity", "image": "mirror/modelctl@sha256:00"}]}}
    assert not POD_PROGRAMS.claim(pod)
    assert POD_PROGRAMS.of(pod["spec"]["containers"][0]) is MODELCTL


def test_what_compares_answers_finds_the_services_of_the_twin() -> None:
    words = [
        "python",
        "-m",
        "modelctl",
        "compare",
        "--release-http=http://a.triton:8000",
        "--release-grpc=dns:///a-headless:8001",
    ]
    started = COMPARER.command(launch(*words, HOME="/tmp"))
    assert started.argv == (
        sys.executable,
        *words[1:5],
        "--release-grpc=dns://127.0.0.1:5353/a-headless:8001",
        "--http-proxy=http://127.0.0.1:8888",
    )
    pod = {"spec": {"containers": [{"name": "compare", "image": "mirror/modelctl@sha256:00"}]}}
    assert POD_PROGRAMS.claim(pod)
    assert POD_PROGRAMS.of(pod["spec"]["containers"][0]) is COMPARER
    with pytest.raises(SpecError, match="modelctl runs here as 'python -m modelctl compare' …, not as"):
        COMPARER.command(launch(*FETCH))


@pytest.mark.parametrize(("program", "words"), [(MODELCTL, [*FETCH[:3], "follow"]), (COMPARER, [*FETCH[:3], "compare"])])
def test_what_listens_everywhere_listens_at_its_pods_address_alone(program: PodProgram, words: list[str]) -> None:
    """All pods, and other users, share the machine."""
    started = program.command(launch(*words, "--serve=0.0.0.0:8003", "--endpoint-url=http://127.0.0.1:5000", HOME="/tmp"))
    assert [word for word in started.argv if word.startswith("--serve=")] == ["--serve=127.244.130.5:8003"]
