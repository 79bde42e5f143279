"""Every end of a command has a message and an exit code of the set, and no traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from botocore.exceptions import ClientError, NoCredentialsError

from console import explanation, program
from spec.failure import FAILED, NOT_TRIED, Failure
from tests.command import run
from tests.paths import ROOT


class Unready(Failure):
    exit_code = NOT_TRIED


def broken() -> None:
    raise Unready("the thing is missing; bring it")


def of_the_program() -> None:
    {}["key"]


def no_such_program() -> None:
    subprocess.run(["no-such-program-here"], check=True)


def no_such_file() -> None:
    Path("/nonexistent/file").read_text(encoding="utf-8")


def ctrl_c_at_a_question() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise typer.Abort from None


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


REFUSED = ClientError({"Error": {"Code": "Throttling", "Message": "slow\ndown"}}, "DescribeVpcs")
SAID = "An error occurred (Throttling) when calling the DescribeVpcs operation: slow down"
FAILURES: list[tuple[Callable[[], None], int, str]] = [
    (broken, NOT_TRIED, "the thing is missing; bring it"),
    (raising(Unready("a log: \x1b[2Jnothing")), NOT_TRIED, "a log: \\x1b[2Jnothing"),
    (raising(Failure("it does not hold")), FAILED, "it does not hold"),
    (raising(KeyboardInterrupt()), 130, "interrupted"),
    (ctrl_c_at_a_question, 130, "interrupted"),
    (raising(typer.Abort()), 2, "a question was asked, and standard input has no answer"),
    (no_such_program, 2, "no-such-program-here is not installed, or not on PATH"),
    (no_such_file, 2, "/nonexistent/file: No such file or directory"),
    (raising(PermissionError(errno.EACCES, "Permission denied", "/etc/x")), 2, "/etc/x: Permission denied"),
    (raising(OSError(errno.EROFS, "Read-only file system", "/x")), 2, "/x: Read-only file system"),
    (
        raising(OSError(errno.ENOSPC, "No space left", "/x")),
        2,
        "/x cannot be written: the disk is full; free some space and",
    ),
    (raising(OSError(errno.EDQUOT, "Quota")), 2, "the output cannot be written: the disk is full; free some space and run"),
    (raising(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")), 2, "Connection reset by peer"),
    (raising(BrokenPipeError(errno.EPIPE, "Broken pipe")), 2, "Broken pipe"),  # of a connection: the output still exists
    (raising(TimeoutError("timed out")), 2, "timed out"),
    (raising(NoCredentialsError()), 2, "there are no AWS credentials: set AWS_PROFILE (after `aws login` or `aws sso"),
    (raising(REFUSED), 2, f"AWS cannot be asked: {SAID}"),
    (raising(MemoryError()), 2, "memory ran out; end other programs and run it again"),
    (
        raising(ModuleNotFoundError("No module named 'pulumi'", name="pulumi.runtime")),
        2,
        "the Python package pulumi is not installed: `make venv` in a checkout, else `pip install 'triton-eks'`",
    ),
]


@pytest.mark.parametrize(("work", "code", "said"), FAILURES, ids=[said[:40] for _, _, said in FAILURES])
def test_a_failure_is_a_sentence(work: Callable[[], None], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.guard("stackctl", work) == code
    told = capsys.readouterr()
    assert (told.out, told.err.startswith(f"error: {said}"), told.err.count("\n")) == ("", True, 1), told.err


def test_an_error_of_the_program_says_where_and_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    line = of_the_program.__code__.co_firstlineno + 1
    assert program.guard("stackctl", of_the_program) == 70
    assert capsys.readouterr().err == (
        f"error: an error in stackctl itself at tests/console/test_program.py:{line}: KeyError: 'key'; run it with --debug "
        "for the traceback\n"
    )


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for words in (["--debug", "cost", "show", "nope"], ["cost", "show", "nope", "--debug"]):
        done = run("stackctl", *words)
        assert (done.exit_code, done.stderr.count("Traceback (most recent call last)")) == (2, 1)
        assert done.stderr.splitlines()[-1].startswith("error: no stack file stacks/Pulumi.nope.yaml; ")
    behind = run("stackctl", "cost", "show", "--", "--debug")
    assert behind.stderr.startswith("error: no stack file stacks/Pulumi.--debug.yaml; ")


def test_a_wrong_command_line_is_told_like_every_mistake() -> None:
    done = run("stackctl", "cost", "show", "dev", "--jsn")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: No such option: --jsn")
    assert done.stderr.endswith("`stackctl cost show --help` lists what there is\n")
    assert run("stackctl", "nope").stderr.startswith("error: No such command 'nope'; `stackctl --help`")


@pytest.mark.parametrize("name", explanation.OF_TWIN)
def test_who_looks_in_stackctl_for_a_command_of_twin_is_told_where_it_is(name: str) -> None:
    done = run("stackctl", name, "prod")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: No such command '{name}'; it is a command of `twin`: `python3 -m twin {name}`\n"
    assert run("twin", name, "--help").exit_code == 0


def start(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    with process:
        _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        code, stderr = ended(start("stackctl", "cost", "show", "dev", stdout=full.fileno()))
    said = "error: the output cannot be written: the disk is full; free some space and run it again\n"
    assert (code, stderr) == (2, said)


@pytest.mark.parametrize("words", [["cost", "show", "dev"], ["cost", "show", "dev", "--json"], ["rules", "dev"], ["--help"]])
def test_without_a_reader_it_ends_without_a_word(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("stackctl", *words, stdout=writer)
    os.close(writer)
    assert ended(process) == (141, "")


def test_a_closed_output_is_no_failure() -> None:
    command = f"exec '{sys.executable}' -m stackctl cost show dev >&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_terminal_cannot_show_is_escaped() -> None:
    process = start("stackctl", "cost", "show", "dev", "--against", "HEAD", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ended(process) == (0, "")


SLOW = """
import atexit, time
atexit.register(print, "given back", flush=True)
print("importing", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("sent", "code", "said"), [(signal.SIGINT, 130, "error: interrupted\n"), (signal.SIGTERM, 143, "")], ids=["INT", "TERM"]
)
def test_it_ends_at_once_and_in_order_while_it_still_imports(
    sent: signal.Signals, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "typer.py").write_text(SLOW, encoding="utf-8")
    process = start("stackctl", "cost", "show", "dev", PYTHONPATH=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(sent)
    assert process.stdout.read() == "given back\n"
    assert ended(process) == (code, said)


@pytest.mark.parametrize("name", ["modelctl", "stackctl", "twin"])
def test_help_imports_nothing_that_takes_long(name: str) -> None:
    """Check that a command's imports wait until it is called: with them, help would take more than a second."""
    heavy = ("aiohttp", "boto3", "botocore", "cryptography", "grpc", "httpx", "moto", "numpy", "pulumi", "pydantic", "yaml")
    script = (
        "import atexit, sys\n"
        f"sys.argv = ['{name}', '--help']\n"
        f"atexit.register(lambda: print([name for name in {heavy} if name in sys.modules]))\n"
        f"from console.program import main; main('{name}')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_advice_is_given_to_whoever_interrupts() -> None:
    with pytest.raises(program.Interrupted, match=r"^half is done$") as told, program.interruptible("half is done"):
        raise KeyboardInterrupt
    assert told.value.exit_code == 130
