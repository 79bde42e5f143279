"""The twin's program for Triton's container; tests/twin/triton tests its arguments."""

from pathlib import Path

import pytest

from tests.twin.charts.launches import ADDRESS, launch
from twin.charts.triton import TRITON
from twin.pods.pod_spec import SpecError
from twin.triton import tritonserver


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with exactly the flags below."""
    flags = {"--model-repository": True, "--exit-on-error": True}
    found = tritonserver.TritonServer(Path("/t/tritonserver"), Path("/t/b"), Path("/t/c"), (), Path("/t/bin"), flags)
    monkeypatch.setattr(tritonserver, "locate", lambda cache: found)


def test_it_listens_on_its_pods_address_and_its_shared_memory_is_its_own() -> None:
    argv = TRITON.command(launch("tritonserver", "--model-repository=s3://http://127.0.0.1:5000/b/r")).argv
    assert argv[:2] == ("/t/tritonserver", "--model-repository=s3://http://127.0.0.1:5000/b/r")
    assert f"--grpc-address={ADDRESS}" in argv
    assert argv[-1] == "--backend-config=python,shm-region-prefix-name=twin-1234-uid-"


def test_a_warm_pod_sleeps_though_it_has_the_image_of_triton() -> None:
    started = TRITON.command(launch("sleep", "infinity", HOME="/h"))
    assert (started.argv, started.env) == (("sleep", "infinity"), {"HOME": "/h"})


def test_flags_of_newer_releases_are_left_out_and_said() -> None:
    newer = sorted(tritonserver.NEWER_FLAGS)[:2]
    started = TRITON.command(launch("--model-repository=/m", *(f"{flag}=1" for flag in newer)))
    assert not any(word.startswith(tuple(newer)) for word in started.argv)
    assert started.notes == [("FlagsLeftOut", f"this machine's older tritonserver has no {', '.join(newer)}")]


@pytest.mark.parametrize(
    "repository", ["s3://models/r", "s3://https://s3.us-west-2.amazonaws.com:443/b", "s3://http%3A//1.2.3.4:5/b"]
)
def test_models_in_the_real_s3_are_refused(repository: str) -> None:
    with pytest.raises(SpecError, match=r"is in the real AWS.*models\.s3Endpoint"):
        TRITON.command(launch(f"--model-repository={repository}"))


def test_a_flag_that_no_release_has_is_refused_as_in_a_cluster() -> None:
    with pytest.raises(SpecError, match="no release has the flag --model-repo") as error:
        TRITON.command(launch("--model-repo=/m"))
    assert error.value.reason == "RunContainerError"


def test_the_openai_front_end_which_no_package_has_is_told() -> None:
    with pytest.raises(SpecError, match=r"is in NVIDIA's image alone, and no package has it: remove triton\.openai$"):
        TRITON.command(launch("python3", "/opt/tritonserver/python/openai/openai_frontend/main.py", "--model-repository=/m"))
