"""SIGTERM while models load, in a PID namespace as in a container.

Until its models are loaded, the server has no handler for SIGTERM. The kernel kills any process without a handler, except
PID 1 of a namespace, where it drops the signal. With `shareProcessNamespace: true` PID 1 is the pod's pause process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks.local_process import descendants, name_of
from tests.system.serving import models
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
PAUSE = ("sh", "-c", '"$@" & wait $!', "pause")
"""A PID 1 that only waits for the server."""


def _namespaces_work() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode


pytestmark = pytest.mark.skipif(not _namespaces_work(), reason="making a PID namespace needs root and unshare")


def loading(kubelet: Kubelet, repository: Path, wrapper: tuple[str, ...], load_gate: Path) -> tuple[Pod, int]:
    """Return a pod whose server loads in a namespace until the file exists, and the server's pid on this machine."""
    models.write(repository, timing=Timing(load_gate=load_gate))
    pod = kubelet.pod({"echo": 1}, repository, wrapper=wrapper).start()
    pod.until_logged("loading: echo:1")
    # The process that it forks for the model has the server's name until its exec, and comes after the server.
    server = next(pid for pid in descendants(pod.pid) if name_of(pid) == "tritonserver")
    return pod, server


def pid_in_namespace(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:")]
    return int(line.split()[-1])


def test_beside_a_pause_process_the_server_ends_at_once(kubelet: Kubelet, repository: Path, tmp_path: Path) -> None:
    assert kubelet.pod({"echo": 1}, repository).spec["shareProcessNamespace"] is True
    pod, server = loading(kubelet, repository, (*NAMESPACE, *PAUSE), tmp_path / "never")
    assert pid_in_namespace(server) != 1

    os.kill(server, signal.SIGTERM)

    pod.until(lambda: pod.restarts == 1, "the container to have ended")
    assert pod.last_state["terminated"]["exitCode"] == 128 + 15
    assert not pod.started


def test_as_pid_1_the_server_loses_the_signal_and_goes_on_loading(
    kubelet: Kubelet, repository: Path, tmp_path: Path
) -> None:
    load_gate = tmp_path / "load"
    pod, server = loading(kubelet, repository, NAMESPACE, load_gate)
    assert pid_in_namespace(server) == 1

    os.kill(server, signal.SIGTERM)
    load_gate.touch()

    pod.until_ready()
    assert "Signal (15)" not in pod.log_text()
