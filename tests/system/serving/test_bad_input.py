"""Bad input on the default, rolling path: its messages, no need for cleanup, and old pods that continue to serve.

The tests check the messages in the sources that `make up` and the twin use: the pod's log (`triton_log.causes`; in a cluster
`kubectl logs`), the pod's events, and modelctl's output. test_drain_rolling_update shows that a Deployment stops at the
first such pod.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import httpx
import pytest
from moto.server import ThreadedMotoServer

from tests.system.serving import models
from tests.system.serving.conftest import BUCKET
from tests.system.serving.pods import START_SECONDS, Bucket, Kubelet, Pod
from twin.triton.triton_log import causes

RELEASE = "3f2a9c1b7d04" + 52 * "0"
BODY = {"inputs": [{"name": "IN", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}
RAISES = """
class TritonPythonModel:
    def initialize(self, arguments):
        raise ValueError("weights.npz has 3 columns, the config says 4")

    def execute(self, requests):
        return []
"""
WEIGHTS = 8 << 20
CHECKS_ITS_WEIGHTS = models.MODEL.replace(
    "        self.version =",
    f"""\
        size = pathlib.Path(__file__).with_name("weights.bin").stat().st_size
        if size != {WEIGHTS}:
            raise ValueError(f"weights.bin has {{size}} bytes instead of {WEIGHTS}")
        self.version =""",
).replace("import json", "import json\nimport pathlib")


class Prefix:
    """A release that was uploaded by hand, without validation."""

    def __init__(self, endpoint: str) -> None:
        self._s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=endpoint)
        self.bucket = Bucket(endpoint, BUCKET, RELEASE)

    def upload(self, repository: Path) -> None:
        for path in sorted(repository.rglob("*")):
            if path.is_file():
                self.put(path.relative_to(repository).as_posix(), path.read_bytes())

    def put(self, key: str, content: bytes | str) -> None:
        body = content.encode() if isinstance(content, str) else content
        self._s3.put_object(Bucket=BUCKET, Key=f"releases/{RELEASE}/{key}", Body=body)

    def delete(self, key: str) -> None:
        self._s3.delete_object(Bucket=BUCKET, Key=f"releases/{RELEASE}/{key}")


@pytest.fixture
def prefix(moto: str, repository: Path) -> Prefix:
    """Return the correct model `echo`, version 1."""
    models.write(repository)
    prefix = Prefix(moto)
    prefix.upload(repository)
    return prefix


def ended(pod: Pod) -> int:
    """Wait for the container's first exit, and return its exit code."""
    pod.until(lambda: pod.restarts, "the container to end")
    assert not pod.ready
    return int(pod.last_state["terminated"]["exitCode"])


def answer(pod: Pod) -> float:
    url = f"{pod.http}/v2/models/echo/infer"
    response = httpx.post(url, json=BODY, headers={"Connection": "close"}, timeout=60, trust_env=False)
    response.raise_for_status()
    return float(response.json()["outputs"][0]["data"][0])


def test_a_model_that_raises_is_named_with_its_version_its_words_and_its_line(kubelet: Kubelet, prefix: Prefix) -> None:
    prefix.put("echo/1/model.py", RAISES)
    pod = kubelet.pod({"echo": 1}, prefix.bucket).start()

    assert ended(pod) == 1

    said = "Internal: ValueError: weights.npz has 3 columns, the config says 4"
    assert causes(pod.log) == [f"failed to load 'echo' version 1: {said} (1/model.py(4): initialize)"]


def test_an_unknown_field_is_named_with_its_file_and_place(kubelet: Kubelet, prefix: Prefix, repository: Path) -> None:
    config = (repository / "echo" / "config.pbtxt").read_text()
    prefix.put("echo/config.pbtxt", f"{config}dynamicBatching {{ }}\n")
    pod = kubelet.pod({"echo": 1}, prefix.bucket).start()

    assert ended(pod) == 1

    line = len(config.splitlines()) + 1
    field = f'{line}:17: Message type "inference.ModelConfig" has no field named "dynamicBatching".'
    said = causes(pod.log)
    assert f"Error parsing text-format inference.ModelConfig: {field}" in said
    assert any("'echo'" in sentence and f"releases/{RELEASE}/echo/config.pbtxt" in sentence for sentence in said)


def test_a_half_uploaded_version_is_ended_by_the_startup_probe_and_mended_by_the_rest_of_the_upload(
    kubelet: Kubelet, prefix: Prefix, repository: Path
) -> None:
    """Server 2.51 hangs permanently in the load of a version without its model file.

    See docs/facts/triton-server.md#missing-model-file.
    """
    prefix.put("echo/1/labels.txt", "setosa")
    prefix.delete("echo/1/model.py")
    startup = {"startup": {"minimumSeconds": 30, "secondsPerModel": 20}}
    pod = kubelet.pod({"echo": 1}, prefix.bucket, startup).start()

    assert ended(pod) == 128 + 15
    assert pod.messages("Killing") == ["Container triton failed startup probe, will be restarted"]
    assert causes(pod.log) == ["'echo' version 1 hangs in its load: Python model file not found in '1/model.py'"]

    prefix.put("echo/1/model.py", (repository / "echo" / "1" / "model.py").read_bytes())
    # A container that restarts before the rest is uploaded hangs too, until its probe kills it.
    pod.until(lambda: pod.ready, "the restarted pod to serve the whole upload", 2 * START_SECONDS)
    assert answer(pod) == 2.0


def test_a_model_that_the_release_lacks_is_named_by_the_readiness_probe(kubelet: Kubelet, prefix: Prefix) -> None:
    pod = kubelet.pod({"echo": 1, "rank": 3}, prefix.bucket).start()

    named = "/v2/models/rank/versions/3/ready is not ready"
    pod.until(lambda: any(named in said for said in pod.messages("Unhealthy")), "the readiness probe to name the model")
    assert not pod.ready


@pytest.fixture
def port() -> Iterator[int]:
    """Yield a port without a listener. It is bound here, so no program gets it by chance, but a server may listen on it."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield int(kept.getsockname()[1])


def test_an_unreachable_bucket_is_said_and_waited_for(kubelet: Kubelet, repository: Path, port: int) -> None:
    models.write(repository)
    # The SDK's own retries take 50 s.
    once = {"extraEnv": [{"name": "AWS_RETRY_MODE", "value": "standard"}, {"name": "AWS_MAX_ATTEMPTS", "value": "1"}]}
    pod = kubelet.pod({"echo": 1}, Bucket(f"http://127.0.0.1:{port}", BUCKET, RELEASE), once).start()

    assert ended(pod) == 1
    (said,) = causes(pod.log)
    assert said.startswith("creating server: Internal - Unable to create S3 filesystem client.")
    assert said.endswith("'curlCode: 7, Couldn't connect to server'")

    with moto_on(port) as endpoint:
        s3 = boto3.client("s3", region_name="us-west-2", endpoint_url=endpoint)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        Prefix(endpoint).upload(repository)
        pod.until(lambda: pod.ready, "the pod to start by itself when the bucket is back")
    assert answer(pod) == 2.0


@contextlib.contextmanager
def moto_on(port: int) -> Iterator[str]:
    """Run a moto on that port, which has no listener."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        # All motos of a process share their accounts: start without an earlier test's resources.
        httpx.post(f"http://127.0.0.1:{port}/moto-api/reset", timeout=30, trust_env=False).raise_for_status()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, str], None]]:
    """Mount a tmpfs of that size at a directory, or resize the existing one."""
    mounted: set[Path] = set()

    def mount(path: Path, size: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        options = f"remount,size={size}" if path in mounted else f"size={size}"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a tmpfs needs root: {done.stderr.strip()}")
        mounted.add(path)

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_full_disk_cuts_a_download_off_in_silence_so_that_the_model_has_to_say_it(
    kubelet: Kubelet, prefix: Prefix, small_disk: Callable[[Path, str], None]
) -> None:
    """Triton 2.51 accepts a short write as complete. A pod needs only free space to recover."""
    prefix.put("echo/1/model.py", CHECKS_ITS_WEIGHTS)
    prefix.put("echo/1/weights.bin", bytes(WEIGHTS))
    pod = kubelet.pod({"echo": 1}, prefix.bucket)
    small_disk(pod.volumes / "models", "4m")
    pod.start()

    assert ended(pod) == 1
    (said,) = causes(pod.log)
    assert said.startswith("failed to load 'echo' version 1: Internal: ValueError: weights.bin has ")
    assert f"bytes instead of {WEIGHTS}" in said

    small_disk(pod.volumes / "models", "64m")
    pod.until(lambda: pod.ready, "the restarted pod to be ready with room on its disk")
    assert answer(pod) == 2.0
    assert len([path for path in (pod.volumes / "models").iterdir()]) == 1, "a failed start leaves nothing on the disk"
