"""A container's arguments, adapted to the machine's tritonserver."""

import os
import sys
from pathlib import Path

import pytest

from twin.triton import tritonserver
from twin.triton.tritonserver import TritonArgumentError, TritonServer, TritonUnavailable, locate, tritonserver_command


@pytest.fixture
def server(tmp_path: Path) -> TritonServer:
    return locate(tmp_path / "cache")


def _own(server: TritonServer, address: str) -> list[str]:
    """Return the arguments that `TritonServer.localize` appends."""
    return [
        f"--http-address={address}",
        f"--grpc-address={address}",
        f"--metrics-address={address}",
        f"--backend-directory={server.backends}",
        f"--cache-directory={server.caches}",
    ]


def test_addresses_and_directories_are_replaced_and_the_rest_is_kept(server: TritonServer) -> None:
    arguments = [
        "tritonserver",
        "--model-repository=s3://http://127.0.0.1:5000/bucket/releases/1",
        "--http-address=0.0.0.0",
        "--grpc-address",
        "10.0.0.1",
        "--metrics-port=8002",
        "--backend-directory=/opt/tritonserver/backends",
        "--disable-auto-complete-config",
        "--metrics-config",
        "summary_latencies=true",
        "--exit-on-error=true",
    ]

    argv, dropped = server.localize(arguments, "127.244.0.7")

    assert argv == [
        str(server.binary),
        "--model-repository=s3://http://127.0.0.1:5000/bucket/releases/1",
        "--metrics-port=8002",
        "--disable-auto-complete-config",
        "--metrics-config=summary_latencies=true",
        "--exit-on-error=true",
        *_own(server, "127.244.0.7"),
    ]
    assert dropped == []


@pytest.mark.parametrize("flag", sorted(tritonserver.NEWER_FLAGS))
@pytest.mark.parametrize("separate", [True, False])
def test_flags_of_newer_servers_are_dropped_by_name(server: TritonServer, flag: str, separate: bool) -> None:
    option = [flag, "7"] if separate else [f"{flag}=7"]

    argv, dropped = server.localize([*option, "--log-verbose=0"], "127.0.0.1")

    assert argv[1:] == ["--log-verbose=0", *_own(server, "127.0.0.1")]
    assert dropped == [flag]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--modle-repository=/m"], "tritonserver: no release has the flag --modle-repository"),
        (["/models"], "tritonserver: '/models' is not a flag; arguments are --name=value or --name value"),
        (["--model-repository"], "tritonserver: --model-repository needs a value"),
        (["--model-repository", "--http-port=1"], "tritonserver: --model-repository needs a value"),
    ],
)
def test_what_no_release_accepts_is_an_error(server: TritonServer, arguments: list[str], sentence: str) -> None:
    with pytest.raises(TritonArgumentError) as failure:
        server.localize(arguments, "127.0.0.1")

    assert str(failure.value) == sentence


def test_the_servers_own_help_tells_its_flags(server: TritonServer) -> None:
    assert len(server.flags) == 87  # server 2.51: docs/facts/triton-server.md#the-wheel
    assert not set(tritonserver.NEWER_FLAGS) & set(server.flags)
    assert [flag for flag, takes_value in server.flags.items() if not takes_value] == [
        "--help",
        "--disable-auto-complete-config",
    ]


def test_the_backend_directory_has_this_interpreters_stub_and_leaves_the_installation_alone(
    server: TritonServer, tmp_path: Path
) -> None:
    installed = server.binary.parent.parent / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = server.backends / "python" / "triton_python_backend_stub"

    assert stub.read_bytes() == (installed / stub.name).read_bytes()
    assert os.access(stub, os.X_OK)
    assert (server.backends / "python" / "libtriton_python.so").is_file()
    assert not [path for path in server.backends.rglob("*") if path.is_symlink()]
    assert server.backends.is_relative_to(tmp_path)
    assert locate(tmp_path / "cache") == server


def test_a_backend_of_the_twin_that_has_changed_gets_a_directory_of_its_own(
    server: TritonServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text("changed = True\n")
    monkeypatch.setattr(tritonserver, "OWN_BACKENDS", {"onnxruntime/model.py": changed})

    again = locate(tmp_path / "cache")

    assert again.backends != server.backends
    assert (again.backends / "onnxruntime" / "model.py").read_text() == "changed = True\n"
    assert "class TritonPythonModel" in (server.backends / "onnxruntime" / "model.py").read_text()


def test_a_broken_backend_directory_is_made_again(server: TritonServer, tmp_path: Path) -> None:
    (server.backends / "python" / "triton_python_backend_stub").unlink()

    again = locate(tmp_path / "cache")

    assert (again.backends / "python" / "triton_python_backend_stub").is_file()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [server.backends.name]


def test_only_the_pods_environment_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "developer")

    command = tritonserver_command(
        ["tritonserver"], "127.0.0.1", tmp_path, {"AWS_REGION": "us-west-2", "LD_LIBRARY_PATH": "/extra"}
    )

    names = {"AWS_REGION", "HOME", "LANG", "LD_LIBRARY_PATH", "ORT_DISABLE_TELEMETRY", "PATH", "__DCGM_DBG_FILE"}
    assert set(command.env) == names
    assert command.env["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    libraries = command.env["LD_LIBRARY_PATH"].split(":")
    assert libraries[0].endswith("/nvidia_pytriton.libs")
    assert libraries[-1] == "/extra"


def test_a_missing_libpython_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_load(_: str) -> None:
        raise OSError("cannot open shared object file")

    monkeypatch.setattr("sysconfig.get_config_var", lambda _: str(tmp_path))
    monkeypatch.setattr("ctypes.CDLL", cannot_load)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    with pytest.raises(TritonUnavailable) as failure:
        locate(tmp_path / "cache")

    assert str(failure.value) == (
        f"Triton's python backend needs libpython{version}.so.1.0: install the Debian or Ubuntu package "
        f"libpython{version}, or use a Python that was built with --enable-shared"
    )


def test_a_missing_package_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(TritonUnavailable, match=r"^the Python package nvidia-pytriton is not installed for "):
        locate(tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my twin", "has a blank in it, and Triton starts its Python backend with a line that is split at blanks"),
        ("Zwölf", "has 'ö' in it, and Triton's Python backend reads models below paths in ASCII alone"),
    ],
)
def test_a_directory_that_the_server_cannot_use_is_refused(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(TritonUnavailable) as refusal:
        locate(tmp_path / name / "cache")
    assert str(refusal.value) == f"{tmp_path}/{name}/cache {why}: set TWIN_HOME to a directory without one"
    assert not (tmp_path / name).exists()
