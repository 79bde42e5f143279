"""An unreadable stack file: one message that names it, in every command with a stack name."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import run

COMMANDS = [
    ["stackctl", "cost", "show"],
    ["stackctl", "preflight"],
    ["stackctl", "orphans"],
    ["stackctl", "destroy"],
    ["stackctl", "rules"],
    ["stackctl", "plan"],
    ["twin", "advise", "--trace", "steps"],
]
UNREADABLE: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a dangling link": lambda file: file.symlink_to("nowhere"),
    "UTF-16": lambda file: file.write_text("config: {}\n", encoding="utf-16"),
    "bytes": lambda file: file.write_bytes(b"\x80\x81\xff"),
    "a NUL": lambda file: file.write_bytes(b"config: {a: \0}\n"),
    "deep": lambda file: file.write_text(f"config: {'[' * 10_000}{']' * 10_000}\n"),
}


@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_named_and_nothing_is_done(
    command: list[str], make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks").mkdir()
    make(tmp_path / "stacks" / "Pulumi.bad.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    done = run(*command, "bad")
    assert done.exit_code == 2, done.stderr
    assert done.stderr.startswith("error: ") and "Pulumi.bad.yaml" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr
