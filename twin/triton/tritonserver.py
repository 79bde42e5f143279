"""The real `tritonserver` of the PyPI package nvidia-pytriton, as a local process.

The wheel contains the server (2.51.0 in nvidia-pytriton 0.7.0), the python backend and one python stub per interpreter
version. The backend looks for the stub in another place (docs/facts/triton-server.md#the-wheel). Instead of copying it into
site-packages, `locate` builds a backend directory under a cache directory and leaves the installation unchanged. Next to
the python backend, it has the twin's own backends (`OWN_BACKENDS`). A pod's arguments are for a newer server in a
container. `TritonServer.localize` adapts them to this process: it replaces addresses and directories, and drops flags that
this older server lacks. It drops them *by name*, never silently and never by guess. A flag that no Triton release has is an
error here, as in the cluster.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.failure import NOT_TRIED, Failure
from spec.triton_options import FLAGS, newer_than

DISTRIBUTION = "nvidia-pytriton"

VERSION = "2.51.0"
"""The version that this server reports in nvidia-pytriton 0.7.0."""
NEWER_FLAGS = frozenset(name for name, flag in FLAGS.items() if newer_than(flag.since, VERSION))
"""Flags of current releases that this server lacks."""

OWN_BACKENDS: Mapping[str, Path] = {
    f"{name}/model.py": Path(__file__).with_name(f"{name}_backend.py") for name in ("onnxruntime", "vllm")
}
"""File of the backend directory to its source: python-based backends that replace backends missing in the wheel."""

_ADDRESS_FLAGS = ("--http-address", "--grpc-address", "--metrics-address")
_DIRECTORY_FLAGS = ("--backend-directory", "--cache-directory", "--repoagent-directory")
_PROGRAM_NAMES = frozenset({"tritonserver", "/opt/tritonserver/bin/tritonserver"})
_HELP_OPTION = re.compile(r"^  (--[a-z0-9-]+)( <.*>)?$", re.MULTILINE)


class TritonUnavailable(Failure):
    """This machine cannot run the server; the text says what is missing, and gives the remedy."""

    exit_code = NOT_TRIED


class TritonArgumentError(ValueError):
    """Arguments that no Triton release accepts."""


@dataclass(frozen=True)
class Command:
    """A process to start: `argv`, its complete environment, and the flags that this older server lacks."""

    argv: list[str]
    env: dict[str, str]
    dropped_flags: list[str]


@dataclass(frozen=True)
class TritonServer:
    """An installed server. `flags` maps each flag that it knows to whether it takes a value."""

    binary: Path
    backends: Path
    caches: Path
    library_path: tuple[Path, ...]
    python_bin: Path
    flags: Mapping[str, bool]

    def localize(self, args: Sequence[str], address: str) -> tuple[list[str], list[str]]:
        """Return the process's argv for a container's `args` on `address`, and the dropped flags.

        `args` may begin with the program's name. Listening addresses and the backend, cache and agent directories are
        replaced; ports, the model repository and everything else stay unchanged. Raises TritonArgumentError for a word that
        is not a flag, a flag without its value, and a flag that no release has.
        """
        words = list(args)
        if words and words[0] in _PROGRAM_NAMES:
            words.pop(0)
        kept: list[str] = []
        dropped: list[str] = []
        while words:
            flag, value = self._next_option(words)
            if flag in _ADDRESS_FLAGS or flag in _DIRECTORY_FLAGS:
                continue
            if flag in self.flags:
                kept.append(flag if value is None else f"{flag}={value}")
            else:
                dropped.append(flag)
        argv = [str(self.binary), *kept, *(f"{flag}={address}" for flag in _ADDRESS_FLAGS)]
        argv += [f"--backend-directory={self.backends}", f"--cache-directory={self.caches}"]
        return argv, dropped

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the process: `env` (the pod's own) and the installation's requirements.

        No other part of the caller's environment passes: a developer's AWS_PROFILE must not reach a "pod".
        """
        inherited = os.environ.get("PATH", os.defpath)
        libraries = [*map(str, self.library_path)]
        if env.get("LD_LIBRARY_PATH"):
            libraries.append(env["LD_LIBRARY_PATH"])
        return {
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            # The GPU metrics' library would write /var/log/nv-hostengine.log, with a GPU or without one.
            "__DCGM_DBG_FILE": os.devnull,
            # onnxruntime from PyPI reports its models and its machine to Microsoft
            # (https://github.com/microsoft/onnxruntime/pull/27379).
            "ORT_DISABLE_TELEMETRY": "1",
            **env,
            # The stub takes its prefix, and so numpy, from the first python3 in PATH.
            "PATH": os.pathsep.join([str(self.python_bin), env.get("PATH", inherited)]),
            # The backend is a copy elsewhere, so its relative RPATH does not find the wheel's libraries.
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        }

    def _next_option(self, words: list[str]) -> tuple[str, str | None]:
        word = words.pop(0)
        flag, separator, value = word.partition("=")
        if not flag.startswith("--"):
            raise TritonArgumentError(f"tritonserver: {word!r} is not a flag; arguments are --name=value or --name value")
        if flag not in self.flags and flag not in NEWER_FLAGS:
            raise TritonArgumentError(f"tritonserver: no release has the flag {flag}")
        if separator:
            return flag, value
        if not self.flags.get(flag, True):
            return flag, None
        if not words or words[0].startswith("--"):
            raise TritonArgumentError(f"tritonserver: {flag} needs a value")
        return flag, words.pop(0)


def locate(cache: Path) -> TritonServer:
    """Return the installed server, with a backend directory under `cache`, which is created or reused.

    Raises TritonUnavailable if the package, the stub for this Python, or libpython is missing. Also raises it if the binary
    does not start, or `cache` cannot be passed to it (`check_path`).
    """
    check_path(cache, "set TWIN_HOME to a directory without one")
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        raise TritonUnavailable(f"the Python package {DISTRIBUTION} is not installed for {sys.executable}")
    package = Path(next(iter(spec.submodule_search_locations)))
    installation = package / "tritonserver"
    binary = installation / "bin" / "tritonserver"
    if not binary.is_file():
        raise TritonUnavailable(f"{DISTRIBUTION} has no tritonserver at {binary}; it is there on Linux x86_64 only")
    libpython = _find_libpython()
    libraries = [package.parent / "nvidia_pytriton.libs"]
    if libpython is not None:
        libraries.append(libpython)
    return TritonServer(
        binary=binary,
        backends=_prepare_backends(installation, cache),
        caches=installation / "caches",
        library_path=tuple(libraries),
        python_bin=Path(sys.executable).parent,
        flags=_known_flags(binary),
    )


def check_path(path: Path, remedy: str) -> None:
    """Raise TritonUnavailable, with `remedy`, for a path that the server cannot pass to its Python backend."""
    if any(character.isspace() for character in str(path)):
        raise TritonUnavailable(
            f"{path} has a blank in it, and Triton starts its Python backend with a line that is split at blanks: {remedy}"
        )
    foreign = next((character for character in str(path) if not character.isascii()), None)
    if foreign is not None:
        # The Python in the backend's stub is isolated: it takes no encoding from LANG, nor from PYTHONUTF8.
        raise TritonUnavailable(
            f"{path} has '{foreign}' in it, and Triton's Python backend reads models below paths in ASCII alone: {remedy}"
        )


def tritonserver_command(args: Sequence[str], address: str, cache: Path, env: Mapping[str, str]) -> Command:
    """Return the command that runs a pod's `args` and `env` as a process that listens only on `address`.

    `env` must already hold the pod's values with paths of this machine; see `locate` and `TritonServer.localize` for the
    errors.
    """
    server = locate(cache)
    # The chart's command is a shell that reads the admin key and starts the words after its own four.
    shell = list(args[:4]) if args[:2] == ["sh", "-c"] else []
    argv, dropped = server.localize(args[len(shell) :], address)
    return Command(argv=[*shell, *argv], env=server.environment(env), dropped_flags=dropped)


def _find_libpython() -> Path | None:
    """Return the directory to search for the stub's libpython; None if the system's loader finds it."""
    library = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    own = Path(sysconfig.get_config_var("LIBDIR") or "/nonexistent")
    if (own / library).is_file():
        return own
    try:
        ctypes.CDLL(library)
    except OSError:
        package = library.partition(".so")[0]
        raise TritonUnavailable(
            f"Triton's python backend needs {library}: install the Debian or Ubuntu package {package}, "
            "or use a Python that was built with --enable-shared"
        ) from None
    return None


def _prepare_backends(installation: Path, cache: Path) -> Path:
    """Return a backend directory: the python backend with the stub of this interpreter, and the twin's own backends.

    It contains copies, because the core refuses a backend whose library is a link to a file outside the directory
    (https://github.com/triton-inference-server/core/blob/main/src/backend_model.cc, `IsChildPathEscapingParentPath`).
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = installation / "python_backend_stubs"
    stub = stubs / version / "triton_python_backend_stub"
    if not stub.is_file():
        available = ", ".join(sorted((p.name for p in stubs.iterdir()), key=lambda v: [int(n) for n in v.split(".")]))
        raise TritonUnavailable(f"{DISTRIBUTION} has no python stub for Python {version}; it has {available}")
    python = [path for path in sorted((installation / "backends" / "python").iterdir()) if path.is_file()]
    sources = {**{f"python/{path.name}": path for path in (*python, stub)}, **OWN_BACKENDS}
    identity = hashlib.sha256(importlib.metadata.version(DISTRIBUTION).encode())
    for name, path in sources.items():
        own = path.read_bytes() if name in OWN_BACKENDS else b""
        identity.update(f"\n{name} {path} ".encode() + own)
    target = cache / f"triton-backends-{identity.hexdigest()[:12]}"

    def is_whole() -> bool:
        return all((target / name).is_file() for name in sources)

    if is_whole():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix="triton-backends-", dir=cache))
    for name, path in sources.items():
        (building / name).parent.mkdir(exist_ok=True)
        shutil.copy(path, building / name)
    building.chmod(0o755)
    try:
        building.rename(target)
    except OSError:  # another process was first, or a broken one is in the way
        if is_whole():
            shutil.rmtree(building)
        else:
            shutil.rmtree(target)
            building.rename(target)
    return target


def _known_flags(binary: Path) -> Mapping[str, bool]:
    return _flags_of_help(str(binary), binary.stat().st_mtime_ns)


@functools.cache
def _flags_of_help(binary: str, _mtime_ns: int) -> Mapping[str, bool]:
    """Return the flags in the server's own help, and whether each takes a value."""
    result = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=30, check=False)
    flags = {flag: bool(value) for flag, value in _HELP_OPTION.findall(result.stdout + result.stderr)}
    if "--model-repository" not in flags:
        reason = (result.stderr.strip() or f"exit code {result.returncode}").splitlines()[-1]
        raise TritonUnavailable(f"{binary} does not start here: {reason}; it needs Linux x86_64 with glibc 2.35 or newer")
    return flags
