"""In every environment, a command exits with a documented code and, if it fails, with a message."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from console import program
from console.exit_codes import CLOSED_PIPE, DONE
from spec.failure import FAILED, NOT_TRIED, Failure
from tests import aws_environment
from tests.paths import ROOT
from twin.host import tools
from twin.services.servers import Servers
from twin.triton import tritonserver

NOWHERE = "127.0.0.1:1"
GIVEN = {
    "approved": "preview.json",
    "before": "dev",
    "bucket": "triton-models",
    "file": "stacks/Pulumi.dev.yaml",
    "from_bucket": "triton-models",
    "model": "classify",
    "name": "trial",
    "names": "staging",
    "now": "preview.json",
    "models": "models",
    "models_dir": "models",
    "preview": "preview.json",
    "region": "us-west-2",
    "release_id": "0123456789ab" + 52 * "0",
    "reports": "reports",
    "server": NOWHERE,
    "slo_p95_ms": "50",
    "stack": "dev",
    "trace": "trace.csv",
    "version": "25.01",
}
"""Values of parameters: the required ones, the stack, an unused server address, a short trace, and a refused Triton release,
so no registry is called.

Any other parameter gets its own name as its value, such as a nonexistent file.
"""


def lines() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each command of the three programs: its words, the program, and its shortest valid line."""
    for name in ("stackctl", "modelctl", "twin"):
        for words, command in _below(typer.main.get_command(import_module(f"{name}.cli").app), ()):
            yield " ".join((name, *words)), name, [*words, *_parameters(command)]


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
    else:
        for name in inner:
            yield from _below(inner[name], (*words, name))


def _parameters(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.name == "once":  # otherwise it would run until interrupted
            yield parameter.opts[0]
        elif parameter.required or parameter.name in ("server", "stack", "trace"):
            if parameter.param_type_name == "option":
                yield parameter.opts[0]
            yield GIVEN.get(parameter.name, parameter.name)


LINES = {words: (name, line) for words, name, line in lines()}


def test_every_switch_is_off_until_somebody_gives_it() -> None:
    """For example `--yes`, with which `pulumi up` runs without confirmation."""
    switches = {
        (name, *words, parameter.opts[0]): parameter.default
        for name in ("stackctl", "modelctl", "twin")
        for words, command in _below(typer.main.get_command(import_module(f"{name}.cli").app), ())
        for parameter in command.params
        if getattr(parameter, "is_flag", False)
    }
    assert switches[("stackctl", "first-inference", "--yes")] is False
    assert [switch for switch, default in switches.items() if default is not False] == []


@pytest.mark.parametrize("words", LINES)
def test_help_shows_values_in_upper_case_and_flags_without_a_value(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *rest = words.split()
    assert program.run(name, [*rest, "--help"]) == DONE
    shown = capsys.readouterr().out
    assert "<bool>" not in shown
    usage = " ".join(itertools.takewhile(str.strip, shown.split("Usage: ")[1].splitlines()))
    options = " ".join(usage.split()).removeprefix(words)
    assert options == options.upper()


@pytest.mark.parametrize("name", ["modelctl", "stackctl", "twin"])
def test_the_version_is_that_of_the_project(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert program.run(name, ["--version"]) == DONE
    assert capsys.readouterr().out == f"{project['version']}\n"


def test_commands_of_workflows_and_containers_stand_in_a_panel_of_their_own() -> None:
    panels = {
        command.name
        for name in ("modelctl", "stackctl", "twin")
        for command in typer.main.get_command(import_module(f"{name}.cli").app).commands.values()
        if command.rich_help_panel == "Run by the platform"
    }
    assert panels == {"fetch", "follow", "put-plan", "compare", "review"}


def not_a_checkout(patch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "empty").mkdir()
    patch.chdir(folder / "empty")


def deleted(patch: pytest.MonkeyPatch, folder: Path) -> None:
    not_a_checkout(patch, folder)
    (folder / "empty").rmdir()


def no_home_no_programs_no_locale(patch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        patch.setenv(name, "/dev/null")
    for name in ("LANG", "LC_ALL"):
        patch.setenv(name, "C")
    patch.setenv("PATH", "")
    patch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii", errors="backslashreplace"))


def broken_aws_configuration(patch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "config").write_text("[default\nregion", encoding="utf-8")
    patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))


def full_disk(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(sys, "stdout", os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", encoding="utf-8"))


def closed_output(patch: pytest.MonkeyPatch, folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    patch.setattr(sys, "stdout", os.fdopen(writer, "w", encoding="utf-8"))


SURROUNDINGS = {
    surrounding.__name__: surrounding
    for surrounding in (
        not_a_checkout,
        deleted,
        no_home_no_programs_no_locale,
        broken_aws_configuration,
        full_disk,
        closed_output,
    )
}
IN_ITS_OUTPUT = {"twin env"}
"""Printed for a shell's `eval`, instead of standard error."""


def _refuse(*_: object, **__: object) -> None:
    raise Failure("no server is started in a test of surroundings")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a writable copy of the checkout's files that commands read."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "stacks", folder / "stacks")
    (folder / "models").symlink_to(ROOT / "models")
    (folder / "trace.csv").write_text("seconds,requests_per_second\n0,1\n600,1\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
@pytest.mark.parametrize("words", LINES)
def test_it_ends_with_a_sentence_and_a_documented_code(
    words: str, surrounding: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    for owner, name in ((Servers, "start"), (tools, "ensure"), (tritonserver, "locate")):
        monkeypatch.setattr(owner, name, _refuse)
    for variable, value in {
        "AWS_ENDPOINT_URL": f"http://{NOWHERE}",
        "AWS_MAX_ATTEMPTS": "1",
        "HTTPS_PROXY": f"http://{NOWHERE}",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "TWIN_HOME": str(tmp_path / "twin"),
    }.items():
        monkeypatch.setenv(variable, value)
    told = io.StringIO()
    for name, stream in (("stdin", io.StringIO()), ("stdout", io.StringIO()), ("stderr", told)):
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.chdir(checkout)
    SURROUNDINGS[surrounding](monkeypatch, tmp_path)

    code = program.run(*LINES[words])

    program._forget_what_cannot_be_written(sys.stdout)
    said = told.getvalue()
    assert code in (DONE, FAILED, NOT_TRIED, *([CLOSED_PIPE] if surrounding == "closed_output" else [])), said
    assert "Traceback" not in said
    if words not in IN_ITS_OUTPUT:
        assert ("error: " in said) == (code not in (DONE, CLOSED_PIPE)), said
