"""The language host runs programs, with a recording engine and a real program process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2

from tests.twin.plugins.recording_engine import RecordingEngine, recording_engine
from twin.plugins import language_host
from twin.plugins.language_host import REPOSITORY, LanguageHost, plugin_command, program_environment, shows_debug_messages
from twin.releases import go_module
from twin.releases.chart import GoModule

_VERSION = re.search(r"pulumi/sdk/v3 (v\S+)", Path(REPOSITORY, "twin/tools/pulumi/go.mod").read_text())
assert _VERSION is not None
_SDK = GoModule("github.com/pulumi/pulumi/sdk/v3", _VERSION[1])
"""The module of this engine, which contains Pulumi's launcher of Python programs."""


class _Call(grpc.ServicerContext):
    """The context of a call in this process, with only the parts that the host uses."""

    def add_callback(self, callback: Any) -> bool:
        return True

    def _unused(self, *arguments: Any) -> Any:
        raise NotImplementedError

    is_active = time_remaining = cancel = invocation_metadata = peer = peer_identities = peer_identity_key = _unused
    auth_context = send_initial_metadata = set_trailing_metadata = abort = abort_with_status = set_code = _unused
    set_details = _unused


@pytest.fixture
def engine() -> Iterator[RecordingEngine]:
    with recording_engine() as engine:
        yield engine


def _run(engine: RecordingEngine, directory: Path, program: str, **request: Any) -> language_pb2.RunResponse:
    (directory / "__main__.py").write_text(program)
    info = language_pb2.ProgramInfo(root_directory=str(directory), program_directory=str(directory), entry_point=".")
    return LanguageHost(engine.address).Run(
        language_pb2.RunRequest(
            project="triton-eks",
            stack="dev",
            organization="organization",
            pwd=str(directory),
            program=".",
            monitor_address=engine.address,
            parallel=4,
            info=info,
            **request,
        ),
        _Call(),
    )


def test_a_program_gets_its_settings_and_its_resources_are_registered(engine: RecordingEngine, tmp_path: Path) -> None:
    (tmp_path / "infra.py").write_text("NAME = 'from the program'\n")
    response = _run(
        engine,
        tmp_path,
        "import pulumi\n"
        "from infra import NAME\n"
        "config = pulumi.Config()\n"
        "pulumi.export('facts', [NAME, pulumi.get_stack(), pulumi.get_project(), pulumi.get_root_directory(),\n"
        "                        pulumi.runtime.is_dry_run(), config.require('zone')])\n"
        "pulumi.export('password', config.require_secret('password'))\n",
        dryRun=True,
        config={"triton-eks:zone": "us-west-2a", "triton-eks:password": "hush"},
        configSecretKeys=["triton-eks:password"],
    )
    assert (response.error, response.bail) == ("", False)
    [stack] = engine.registrations
    assert (stack.type, stack.name) == ("pulumi:pulumi:Stack", "triton-eks-dev")
    [outputs] = engine.outputs.values()
    assert outputs["facts"] == ["from the program", "dev", "triton-eks", str(tmp_path), True, "us-west-2a"]
    assert outputs["password"]["value"] == "hush"


def test_a_run_error_is_shown_as_its_message_and_once_more_as_a_status(engine: RecordingEngine, tmp_path: Path) -> None:
    response = _run(engine, tmp_path, "import pulumi\nraise pulumi.RunError('stacks/x.yaml: wrong\\nsecond line')\n")
    assert (response.error, response.bail) == ("program exited with non-zero exit code: 1", False)
    assert engine.messages("ERROR") == ["stacks/x.yaml: wrong\nsecond line"]


def test_mistakes_in_settings_are_one_error(engine: RecordingEngine, tmp_path: Path) -> None:
    imports = f"import sys\nsys.path.append({str(REPOSITORY)!r})\nfrom infra.stack_settings import refuse\n"
    response = _run(engine, tmp_path, f"{imports}refuse('x.yaml', ['wrong'])\n")
    assert (response.error, response.bail) == ("", True)
    assert engine.messages("ERROR") == ["x.yaml: 1 mistake\n  wrong"]


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("raise pulumi.RunError('wrong')", 1),
        ("raise ValueError('wrong')", 32),
        ("pulumi.log.error('wrong')\nsys.exit(32)", 32),
        ("sys.exit('wrong')", 1),
        ("sys.exit(7)", 7),
        ("pulumi.export('a', 1)", 0),
    ],
)
def test_programs_end_as_under_pulumis_own_launcher(
    engine: RecordingEngine, tmp_path: Path, program: str, status: int
) -> None:
    (tmp_path / "__main__.py").write_text(f"import sys\nimport pulumi\n{program}\n")
    official = go_module.source(_SDK) / "python/cmd/pulumi-language-python-exec"
    settings = {
        "project": "p",
        "stack": "s",
        "organization": "o",
        "root_directory": tmp_path,
        "pwd": tmp_path,
        "parallel": 4,
    }
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    addresses = ["--monitor", engine.address, "--engine", engine.address]
    done = subprocess.run([sys.executable, official, *flags, *addresses, str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == status
    wanted = {0: ("", False), 32: ("", True)}.get(status, (f"program exited with non-zero exit code: {status}", False))
    response = _run(engine, tmp_path, f"import sys\nimport pulumi\n{program}\n")
    assert (response.error, response.bail) == wanted


@pytest.mark.parametrize("shown", [True, False])
def test_what_is_said_for_debugging_is_sent_only_to_an_engine_that_may_show_it(
    shown: bool, engine: RecordingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_host, "shows_debug_messages", lambda command, environ: shown)
    _run(engine, tmp_path, "import pulumi\npulumi.log.debug('in detail')\npulumi.log.info('in short')\n")
    assert ("in detail" in engine.messages("DEBUG"), engine.messages("INFO")) == (shown, ["in short"])


@pytest.mark.parametrize(
    ("command", "environ", "shown"),
    [
        ("pulumi preview --stack dev --json --non-interactive", {}, False),
        ("pulumi up --yes", {"PULUMI_DEBUG_COMMANDS": "true"}, False),
        ("pulumi preview --debug", {}, True),
        ("pulumi preview -yd", {}, True),
        ("pulumi preview --logtostderr -v=9", {}, True),
        ("pulumi --verbose 9 preview", {}, True),
        ("pulumi preview", {"PULUMI_OPTION_DEBUG": "true"}, True),
    ],
)
def test_an_engine_shows_messages_for_debugging_when_it_is_asked(command: str, environ: dict[str, str], shown: bool) -> None:
    assert shows_debug_messages(command.split(), environ) is shown


def test_an_exception_is_shown_with_the_programs_own_frames(engine: RecordingEngine, tmp_path: Path) -> None:
    response = _run(engine, tmp_path, "def broken():\n    raise ValueError('boom')\nbroken()\n")
    assert response.bail
    [message] = engine.messages("ERROR")
    lines = message.splitlines()
    assert lines[0] == "the program ended with an exception:"
    assert f'File "{tmp_path}/__main__.py", line 3' in lines[2]
    assert lines[-1] == "ValueError: boom"
    assert "runpy" not in message and "executor.py" not in message


@pytest.mark.parametrize("text", ["Resource monitor has terminated, shutting down", "resource monitor shut down"])
def test_an_engine_that_stops_is_not_reported_a_second_time(text: str, engine: RecordingEngine, tmp_path: Path) -> None:
    assert _run(engine, tmp_path, f"raise Exception({text!r})\n").bail
    assert engine.messages("ERROR") == []


def test_a_program_that_leaves_with_a_status_failed(
    engine: RecordingEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    response = _run(engine, tmp_path, "import sys\nsys.exit('the stack file is wrong')\n")
    assert (response.error, response.bail) == ("program exited with non-zero exit code: 1", False)
    assert capfd.readouterr().err == "the stack file is wrong\n"


def test_what_waits_for_an_answer_that_could_not_be_read_does_not_wait_for_ever(
    engine: RecordingEngine, tmp_path: Path
) -> None:
    response = _run(
        engine,
        tmp_path,
        "import asyncio\n"
        "from pulumi.runtime.settings import _get_rpc_manager as answers\n"
        "async def unreadable(): raise TypeError('count of queue is text')\n"
        "async def waiting(): await asyncio.get_running_loop().create_future()\n"
        "for one in (unreadable, waiting):\n"
        "    asyncio.ensure_future(answers().do_rpc('register resource', one)())\n",
    )
    assert response.bail
    [said] = engine.messages("ERROR")
    assert said.startswith("the program ended with an exception:\n")
    assert said.endswith("TypeError: count of queue is text\n")


def test_a_folder_without_a_program_is_named(engine: RecordingEngine, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    info = language_pb2.ProgramInfo(root_directory=str(empty), program_directory=str(empty), entry_point=".")
    request = language_pb2.RunRequest(
        project="p", stack="s", pwd=str(empty), monitor_address=engine.address, parallel=1, info=info
    )
    assert LanguageHost(engine.address).Run(request, _Call()).bail
    assert engine.messages("ERROR") == [f"there is no __main__.py in {empty}"]


def test_the_program_sees_neither_the_twins_checkout_nor_its_plugins(
    engine: RecordingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), str(tmp_path / "own")]))
    _run(engine, tmp_path, "import pulumi, sys\npulumi.export('path', list(sys.path))\n")
    [outputs] = engine.outputs.values()
    assert outputs["path"][0] == str(tmp_path)
    assert str(tmp_path / "own") in outputs["path"]
    assert not [entry for entry in outputs["path"] if Path(entry).is_relative_to(REPOSITORY / "twin")]
    assert str(REPOSITORY) not in outputs["path"]


def test_only_our_own_entry_leaves_pythonpath() -> None:
    assert program_environment({"PYTHONPATH": str(REPOSITORY), "A": "1"}) == {"A": "1"}
    assert program_environment({"PYTHONPATH": f"/x{os.pathsep}{REPOSITORY}"}) == {"PYTHONPATH": "/x"}


def test_what_a_plugin_prints_is_handed_on_with_its_status(engine: RecordingEngine, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(
        "import os, sys\nprint(sys.argv[1], os.environ['MODE'])\nprint('to stderr', file=sys.stderr)\nsys.exit(3)\n"
    )
    request = language_pb2.RunPluginRequest(
        pwd=str(tmp_path),
        args=["argument"],
        env=["MODE=a=b"],
        info=language_pb2.ProgramInfo(program_directory=str(tmp_path)),
    )
    responses = list(LanguageHost(engine.address).RunPlugin(request, _Call()))
    assert b"".join(response.stdout for response in responses) == b"argument a=b\n"
    assert b"".join(response.stderr for response in responses) == b"to stderr\n"
    assert responses[-1].exitcode == 3


def _pack(directory: Path) -> language_pb2.RunPluginRequest:
    """Create a plugin that prints its Python, and whose environment is called `own`."""
    (directory / "__main__.py").write_text("import sys\nprint(sys.prefix)\n")
    info = language_pb2.ProgramInfo(root_directory=str(directory), program_directory=str(directory))
    info.options.update({"toolchain": "pip", "virtualenv": "own"})
    return language_pb2.RunPluginRequest(pwd=str(directory), info=info)


def test_a_plugin_runs_in_the_environment_that_its_options_name(engine: RecordingEngine, tmp_path: Path) -> None:
    (tmp_path / "own").symlink_to(sys.prefix)
    responses = list(LanguageHost(engine.address).RunPlugin(_pack(tmp_path), _Call()))
    assert b"".join(response.stdout for response in responses) == f"{tmp_path}/own\n".encode()
    assert responses[-1].exitcode == 0


def test_a_plugin_whose_environment_is_missing_fails_and_says_what_makes_it(engine: RecordingEngine, tmp_path: Path) -> None:
    said, end = LanguageHost(engine.address).RunPlugin(_pack(tmp_path), _Call())
    assert said.stderr.decode() == (
        f"{tmp_path} has no Python: {tmp_path}/own/bin/python is not there. `make venv` makes it, and so does "
        f"`pulumi install` in {tmp_path}\n"
    )
    assert end.exitcode == 1


def test_policy_packs_run_through_the_policy_sdk() -> None:
    assert plugin_command("analyzer", "/packs/a", ["127.0.0.1:1"]) == ["-m", "pulumi.policy", "127.0.0.1:1", "/packs/a"]
    assert plugin_command("resource", "/plugins/a", ["127.0.0.1:1"]) == ["/plugins/a", "127.0.0.1:1"]


def test_what_about_shows_is_this_python() -> None:
    host = LanguageHost("127.0.0.1:1")
    assert host.About(language_pb2.AboutRequest(), _Call()).executable == sys.executable
    found = host.GetProgramDependencies(language_pb2.GetProgramDependenciesRequest(), _Call()).dependencies
    assert {"pulumi", "pulumi_aws"} <= {dependency.name.replace("-", "_") for dependency in found}
    assert list(host.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(), _Call()).packages) == []
    assert host.GetPluginInfo(empty_pb2.Empty(), _Call()).version.endswith("+twin")
