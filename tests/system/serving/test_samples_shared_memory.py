"""Shared memory between a client and a real server on one host: behind the admin key, and cleaned up after any crash.

The server runs with the arguments of the rendered chart. Client shared memory is on in 2.51, as `--allow-client-shm=true`
sets it since 26.05.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

from examples.failures import CallFailed
from examples.server import MODELS
from examples.shared_memory import DIRECTORY, PREFIX, SharedMemory, to_gray
from examples.tensors import to_inputs
from tests.system.serving.pods import Pod, running_kubelet
from twin.host.home import REPOSITORY

PICTURE = np.random.default_rng(7).integers(0, 256, (120, 160, 3), dtype=np.uint8)
GRAY = (PICTURE.astype(int) @ [77, 150, 29] >> 8).astype(np.uint8)
BYTES = PICTURE.nbytes + GRAY.nbytes


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[Pod]:
    repository = tmp_path_factory.mktemp("repository")
    (repository / "to_gray").symlink_to(MODELS / "to_gray")
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        yield kubelet.pod({"to_gray": 1}, repository).start().until_ready()


@pytest.fixture
def client(pod: Pod) -> Iterator[grpc.InferenceServerClient]:
    with grpc.InferenceServerClient(pod.grpc) as client:
        yield client


@pytest.fixture
def memory(pod: Pod, client: grpc.InferenceServerClient) -> SharedMemory:
    return SharedMemory(client, pod.admin_key)


def files() -> set[str]:
    return {path.name for path in DIRECTORY.glob(f"{PREFIX}*")} - {f"{PREFIX}lock"}


def test_a_picture_goes_through_shared_memory_both_ways(client: grpc.InferenceServerClient, memory: SharedMemory) -> None:
    with memory.region(BYTES) as region:
        assert memory.registered() == [region.name]
        assert np.array_equal(to_gray(client, region, PICTURE), GRAY)
        assert np.array_equal(to_gray(client, region, PICTURE[::-1]), GRAY[::-1])
        name = region.name
    assert memory.registered() == []
    assert name not in files()


def test_a_region_is_gone_when_a_request_that_its_client_gave_up_has_ended(
    client: grpc.InferenceServerClient, memory: SharedMemory
) -> None:
    """Until then the server uses the region, and refuses to release it."""
    picture = np.zeros((3000, 4000, 3), np.uint8)
    with pytest.raises(CallFailed) as failed, memory.region(picture.nbytes * 4 // 3) as region:
        to_gray(client, region, picture, deadline_seconds=0.02)
    assert failed.value.code == "DEADLINE_EXCEEDED"
    assert memory.registered() == []


def test_the_answer_is_the_one_without_shared_memory(client: grpc.InferenceServerClient) -> None:
    assert np.array_equal(client.infer("to_gray", to_inputs({"RGB": PICTURE})).as_numpy("GRAY"), GRAY)


def test_a_region_is_gone_after_an_error_too(client: grpc.InferenceServerClient, memory: SharedMemory) -> None:
    with pytest.raises(CallFailed) as failed, memory.region(BYTES - 1) as region:
        to_gray(client, region, PICTURE)
    assert failed.value.code in ("INVALID_ARGUMENT", "INTERNAL")
    assert memory.registered() == []
    assert region.name not in files()


@pytest.mark.parametrize("key", [None, "guess"])
def test_without_the_admin_key_nothing_is_registered_or_left(client: grpc.InferenceServerClient, key: str | None) -> None:
    before = files()
    with pytest.raises(CallFailed, match="admin-key"), SharedMemory(client, key).region(BYTES):
        pass
    assert files() == before


DYING_CLIENT = textwrap.dedent("""
    import json, sys, time
    import tritonclient.grpc as grpc
    from examples.shared_memory import SharedMemory
    target, key, size = sys.argv[1:]
    with grpc.InferenceServerClient(target) as client, SharedMemory(client, key).region(int(size)) as region:
        print(json.dumps(region.name), flush=True)
        time.sleep(120)
""")


@pytest.fixture
def other_client(pod: Pod) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start another process with its own region, and return the region's name."""
    command = [sys.executable, "-c", DYING_CLIENT, pod.grpc, pod.admin_key, str(BYTES)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def test_what_a_killed_client_left_is_removed_by_the_next_one(
    client: grpc.InferenceServerClient, memory: SharedMemory, other_client: tuple[subprocess.Popen[str], str]
) -> None:
    process, left = other_client
    assert memory.registered() == [left]
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    assert memory.registered() == [left]

    with memory.region(BYTES) as region:
        assert memory.registered() == [region.name]
        assert np.array_equal(to_gray(client, region, PICTURE), GRAY)

    assert left not in files()


def test_a_living_clients_region_is_left_alone(
    memory: SharedMemory, other_client: tuple[subprocess.Popen[str], str]
) -> None:
    _, name = other_client
    assert memory.sweep() == []
    assert memory.registered() == [name]


def test_a_file_without_a_registration_is_swept_too(memory: SharedMemory) -> None:
    orphan = f"{PREFIX}{os.getpid()}-orphan"
    (DIRECTORY / orphan).write_bytes(b"left by a client that died before it registered")
    assert orphan in memory.sweep()
    assert orphan not in files()


def test_the_regions_of_others_are_never_touched(pod: Pod, client: grpc.InferenceServerClient, memory: SharedMemory) -> None:
    foreign = f"somebody-elses-{os.getpid()}"
    (DIRECTORY / foreign).write_bytes(b"\0" * 64)
    headers = {"triton-grpc-protocol-admin-key": pod.admin_key}
    try:
        client.register_system_shared_memory(foreign, foreign, 64, headers=headers)
        assert memory.sweep() == []
        assert memory.registered() == [foreign]
        assert (DIRECTORY / foreign).exists()
    finally:
        client.unregister_system_shared_memory(foreign, headers=headers)
        (DIRECTORY / foreign).unlink()


def test_a_region_that_the_server_lost_is_an_error_of_the_call(
    pod: Pod, client: grpc.InferenceServerClient, memory: SharedMemory
) -> None:
    """As after a restart of the server's container."""
    with memory.region(BYTES) as region:
        client.unregister_system_shared_memory(region.name, headers={"triton-grpc-protocol-admin-key": pod.admin_key})
        with pytest.raises(CallFailed, match=region.name):
            to_gray(client, region, PICTURE)


def test_the_key_is_asked_for_by_the_server_itself(client: grpc.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match="admin-key"):
        client.get_system_shared_memory_status()
