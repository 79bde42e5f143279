"""The language host of the twin: the engine uses it to run a Pulumi program written in Python.

It runs programs with its own Python and ignores ``virtualenv`` and ``toolchain`` of Pulumi.yaml, because the program may be
another revision's, which has no environment. A policy pack runs with the Python of its own ``virtualenv``, as with the
official host.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from twin.plugins.executor import EXPLAINED
from twin.plugins.server import engine_address, leave_on_signals, serve

EXECUTOR = Path(__file__).with_name("executor.py")
REPOSITORY = Path(__file__).resolve().parents[2]
_DEBUG_FLAG = re.compile(r"--debug|--verbose|-\w*[dv]")


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """``engine`` is the engine's address; programs log to it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        self._engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=f"{metadata.version('pulumi')}+twin")

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        # The twin's providers are already installed; a list would make the engine search for others.
        return language_pb2.GetRequiredPackagesResponse()

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        program = subprocess.Popen(
            [sys.executable, "-P", "-u", str(EXECUTOR)], stdin=subprocess.PIPE, env=program_environment(os.environ)
        )
        context.add_callback(lambda: _end(program))
        program.communicate(json.dumps(run_document(request, self._engine)).encode())
        if program.returncode == EXPLAINED:
            return language_pb2.RunResponse(bail=True)
        if program.returncode != 0:
            return language_pb2.RunResponse(error=f"program exited with non-zero exit code: {program.returncode}")
        return language_pb2.RunResponse()

    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a plugin written in Python, like a policy pack, and forward its output."""
        program = request.info.program_directory or request.program
        python = plugin_python(request.info)
        if not python.is_file():
            missing = (
                f"{program} has no Python: {python} is not there. `make venv` makes it, and so does `pulumi install` in"
            )
            yield language_pb2.RunPluginResponse(stderr=f"{missing} {program}\n".encode())
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        plugin = subprocess.Popen(
            [str(python), "-P", "-u", *plugin_command(request.kind, program, request.args)],
            cwd=request.pwd or None,
            env=program_environment({**os.environ, **dict(pair.split("=", 1) for pair in request.env)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(lambda: _end(plugin))
        yield from _output_of(plugin)
        yield language_pb2.RunPluginResponse(exitcode=plugin.wait())

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        yield language_pb2.InstallDependenciesResponse(
            stdout=f"the twin runs programs with {sys.executable}; there is nothing to install\n".encode()
        )

    def About(self, request: language_pb2.AboutRequest, context: grpc.ServicerContext) -> language_pb2.AboutResponse:
        return language_pb2.AboutResponse(
            executable=sys.executable, version=platform.python_version(), metadata={"host": "triton-eks twin"}
        )

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        found = {distribution.name: distribution.version for distribution in metadata.distributions()}
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=name, version=version)
                for name, version in sorted(found.items())
                if request.transitiveDependencies or name.lower().startswith("pulumi")
            ]
        )

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()


def run_document(request: language_pb2.RunRequest, engine: str) -> dict[str, Any]:
    """Return the document that ``executor`` reads: the program and its settings."""
    info = request.info
    return {
        "project": request.project,
        "stack": request.stack,
        "organization": request.organization,
        "root_directory": info.root_directory,
        "program_directory": info.program_directory or request.pwd,
        "entry_point": info.entry_point or request.program,
        "pwd": request.pwd,
        "args": list(request.args),
        "config": dict(request.config),
        "secret_keys": list(request.configSecretKeys),
        "monitor": request.monitor_address,
        "engine": engine,
        "parallel": request.parallel,
        "dry_run": request.dryRun,
        "debug": shows_debug_messages(Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0"), os.environ),
    }


def shows_debug_messages(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether an engine with this command line may show debug messages; in doubt, yes."""
    return "PULUMI_OPTION_DEBUG" in environ or any(_DEBUG_FLAG.match(argument) for argument in command)


def plugin_python(info: language_pb2.ProgramInfo) -> Path:
    """Return a plugin's Python: from the ``virtualenv`` of its runtime options, else this process's own."""
    environment = str(info.options["virtualenv"]) if "virtualenv" in info.options else ""
    if not environment:
        return Path(sys.executable)
    return Path(info.root_directory or info.program_directory, environment, "bin", "python")


def plugin_command(kind: str, program: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of Python for a plugin: policy packs run through the policy SDK, other plugins directly.

    `arguments` begin with the engine's address, which the policy SDK takes before the pack.
    """
    return ["-m", "pulumi.policy", *arguments, program] if kind == "analyzer" else [program, *arguments]


def program_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program: the host's own, with the twin's checkout removed from PYTHONPATH."""
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in paths if path and Path(path).resolve() != REPOSITORY]
    rest = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
    return {**rest, "PYTHONPATH": os.pathsep.join(kept)} if kept else rest


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()


def _output_of(process: subprocess.Popen[bytes]) -> Iterator[language_pb2.RunPluginResponse]:
    """Yield the lines of both streams as they arrive; the plugin's first line is the port that the engine waits for."""
    import queue

    lines: queue.SimpleQueue[language_pb2.RunPluginResponse | None] = queue.SimpleQueue()

    def pump(name: str, stream: Any) -> None:
        for line in stream:
            lines.put(language_pb2.RunPluginResponse(**{name: line}))
        lines.put(None)

    for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
        threading.Thread(target=pump, args=(name, stream), daemon=True).start()
    open_streams = 2
    while open_streams:
        line = lines.get()
        if line is None:
            open_streams -= 1
        else:
            yield line


def main() -> None:
    """Run the plugin's process."""
    leave_on_signals()
    host = LanguageHost(engine_address(sys.argv[1:]))
    serve(lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server))


if __name__ == "__main__":
    main()
