"""`pulumi` is never killed in the middle: it finishes its work, and keeps no lock."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from console import pulumi_program
from tests.paths import ROOT

_PULUMI = """#!{python}
import pathlib, signal, sys, time
book = pathlib.Path({book!r})
def end(*_):
    time.sleep(0.5)
    (book / "ended").touch()
    sys.exit(3)
signal.signal(signal.SIGINT, end)
(book / "began").touch()
print("began", flush=True)
while True:
    time.sleep(0.05)
"""
_RUN = "from console import pulumi_program; pulumi_program.run(['up'])"


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which a fake `pulumi` records its start and its completion."""
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(_PULUMI.format(python=sys.executable, book=str(tmp_path)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_ctrl_c_waits_until_it_has_ended_what_it_began(book: Path) -> None:
    command = [sys.executable, "-c", _RUN]
    started = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert started.stdout is not None
    assert started.stdout.readline() == b"began\n"
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    started.communicate(timeout=60)
    assert (book / "ended").exists()


def test_when_the_time_is_over_it_is_interrupted_and_told(book: Path) -> None:
    with pytest.raises(pulumi_program.PulumiFailed, match=r"^`pulumi up` had not ended after 2 s, and was interrupted$"):
        pulumi_program.run(["up"], 2)
    assert (book / "began").exists() == (book / "ended").exists()


def test_a_pulumi_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for run in (pulumi_program.run, pulumi_program.ask):
        with pytest.raises(pulumi_program.PulumiUnusable, match=r"^there is no pulumi on PATH: "):
            run(["up"])


@pytest.mark.parametrize(
    ("printed", "well"),
    [
        ("[]", True),
        ('[{"kind": "update", "result": "succeeded"}]', True),
        ('[{"result": "failed"}]', False),
        ('[{"result": "in-progress"}]', False),
        ("[{}]", False),
    ],
)
def test_the_history_of_a_stack_says_whether_its_last_change_ended_well(
    printed: str, well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def ask(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, printed, "")

    monkeypatch.setattr(pulumi_program, "ask", ask)
    assert pulumi_program.ended_well("first") is well
    assert asked == [["stack", "history", "--json", "--page-size", "1", "--stack", "first"]]


@pytest.mark.parametrize(
    ("code", "printed", "said"),
    [
        (1, "", "the history of first cannot be read: no such stack"),
        (0, "<html>", "the history of first cannot be read: of what `pulumi stack history` prints, "),
        (0, '{"result": "failed"}', "of what `pulumi stack history` prints, it is an object, where a list is expected"),
    ],
)
def test_a_history_that_cannot_be_read_is_a_sentence(
    code: int, printed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess([], code, printed, "no such stack\n")
    monkeypatch.setattr(pulumi_program, "ask", lambda _arguments: answer)
    with pytest.raises(pulumi_program.PulumiUnusable, match=re.escape(said)):
        pulumi_program.ended_well("first")
