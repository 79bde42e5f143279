"""The plugins as processes: the engine's start, output and termination."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2_grpc, provider_pb2_grpc

from twin.plugins.launchers import MODULES, write_launchers

PACKAGES = ("aws", "eks", "kubernetes")


@contextmanager
def _started(launcher: Path, directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the plugin's process and printed port, started in ``directory`` like by the engine."""
    process = subprocess.Popen(
        [launcher, "127.0.0.1:1"], cwd=directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_launchers_have_the_names_that_the_engine_looks_for(tmp_path: Path) -> None:
    written = write_launchers(tmp_path / "plugins", Path(sys.executable))
    assert [path.name for path in written] == [
        "pulumi-language-python",
        "pulumi-resource-aws",
        "pulumi-resource-eks",
        "pulumi-resource-kubernetes",
    ]
    assert all(os.access(path, os.X_OK) for path in written)


def test_writing_launchers_again_leaves_them_alone(tmp_path: Path) -> None:
    [first, *_] = write_launchers(tmp_path, Path(sys.executable))
    before = first.stat().st_mtime_ns
    write_launchers(tmp_path, Path(sys.executable))
    assert first.stat().st_mtime_ns == before


@pytest.mark.parametrize("package", PACKAGES)
def test_a_provider_prints_its_port_alone_and_answers_there(package: str, tmp_path: Path) -> None:
    write_launchers(tmp_path, Path(sys.executable))
    with _started(tmp_path / f"pulumi-resource-{package}", tmp_path) as (_, port):
        assert re.fullmatch(r"\d+", port)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            info = provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty())
    assert info.version.endswith("+twin")


@pytest.mark.parametrize(
    ("name", "signum"),
    [*((name, signal.SIGINT) for name in sorted(MODULES)), ("pulumi-resource-aws", signal.SIGTERM)],
)
def test_a_plugin_leaves_at_once_and_silently(name: str, signum: signal.Signals, tmp_path: Path) -> None:
    write_launchers(tmp_path, Path(sys.executable))
    with _started(tmp_path / name, tmp_path) as (process, _):
        process.send_signal(signum)
        assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 128 + signum


def test_the_folder_that_the_engine_runs_in_does_not_shadow_the_twin(tmp_path: Path) -> None:
    """`preview --against` runs in another revision's checkout, which has its own ``twin``."""
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "__init__.py").write_text("raise SystemExit('the wrong twin')\n")
    write_launchers(tmp_path / "plugins", Path(sys.executable))
    launcher = tmp_path / "plugins" / "pulumi-language-python"
    with _started(launcher, tmp_path) as (_, port), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        info = language_pb2_grpc.LanguageRuntimeStub(channel).GetPluginInfo(empty_pb2.Empty())
    assert info.version.endswith("+twin")


def test_the_official_kubernetes_provider_is_named_when_it_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing built"))
    monkeypatch.setenv("TWIN_OFFICIAL_KUBERNETES", "1")
    write_launchers(tmp_path, Path(sys.executable))
    launcher = [tmp_path / "pulumi-resource-kubernetes", "127.0.0.1:1"]
    done = subprocess.run(launcher, text=True, capture_output=True, timeout=30)
    remedy = "run `python3 -m twin.host.tools pulumi-kubernetes`"
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"the official Kubernetes provider is not built; {remedy}\n",
    )


def test_a_person_who_starts_a_plugin_is_told_what_it_is(tmp_path: Path) -> None:
    write_launchers(tmp_path, Path(sys.executable))
    done = subprocess.run([tmp_path / "pulumi-resource-eks"], text=True, capture_output=True, timeout=30)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "this is a Pulumi plugin: the pulumi program starts it, with its own address as the argument\n"
