"""A wrong or missing stack name: one message and one exit code in every command that takes one."""

import io
from pathlib import Path

import pytest

from spec.stack_names import NoSuchStack, file_of, names
from tests.command import run
from tests.paths import ROOT

COMMANDS = [
    ["twin", "preview"],
    ["stackctl", "cost", "show"],
    ["stackctl", "preflight"],
    ["stackctl", "orphans"],
    ["stackctl", "destroy"],
    ["stackctl", "rules"],
    ["stackctl", "review", "collect", "--preview", "-"],
]
THERE_ARE = f"there are: {', '.join(names(ROOT))}"


@pytest.fixture(autouse=True)
def _in_the_checkout_with_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))


def refused(command: list[str], *stack: str) -> tuple[int, str]:
    done = run(*command, *stack)
    return done.exit_code, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_a_wrong_name_alike(command: list[str]) -> None:
    said = f"error: no stack file stacks/Pulumi.nope.yaml; {THERE_ARE}; `python3 -m stackctl init nope` makes a new one\n"
    assert refused(command, "nope") == (2, said)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_to_guess_a_stack(command: list[str]) -> None:
    assert refused(command) == (2, f"error: no stack is named; {THERE_ARE}\n")


def test_a_path_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").touch()
    (tmp_path / "Pulumi.other.yaml").touch()
    assert file_of("dev", tmp_path) == tmp_path / "stacks" / "Pulumi.dev.yaml"
    with pytest.raises(NoSuchStack, match=r"^no stack file stacks/Pulumi\.x/\.\./\.\./Pulumi\.other\.yaml; there are: dev$"):
        file_of("x/../../Pulumi.other", tmp_path)
