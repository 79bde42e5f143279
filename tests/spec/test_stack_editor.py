"""An edit of a user's stack file changes only that place."""

import difflib
import stat
from pathlib import Path

import pytest

from spec.files import NotWritten
from spec.stack_editor import NotEditable, StackEditor

TEXT = """\
# yaml-language-server: $schema=../spec/stack-file.schema.json
# Development
config:
  aws:region: us-west-2   # the cheap one
  max: {a: 1_000, b: yes, c: 0x1F}
  triton-eks:models:
    days: 90  # keep

  # Where Triton runs.
  triton-eks:triton:
    cpu: '3'
# the end
"""
CHANGED = TEXT.replace("days: 90", "days: 30")


def opened(tmp_path: Path, content: bytes) -> StackEditor:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_bytes(content)
    return StackEditor(file)


def change(editor: StackEditor, days: int = 30) -> None:
    models = editor.section("triton-eks:models")
    assert models is not None
    models["days"] = days
    editor.save({(editor.key("triton-eks:models"), "days"): days})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TEXT, CHANGED),
        (TEXT.replace("\n", "\r\n"), CHANGED.replace("\n", "\r\n")),
        (f"\ufeff{TEXT}", f"\ufeff{CHANGED}"),
        (TEXT.removesuffix("\n"), CHANGED.removesuffix("\n")),
        # Line ends of both kinds, from editors on two systems.
        (TEXT.replace("one\n", "one\r\n"), CHANGED.replace("one\n", "one\r\n")),
        (TEXT.replace("triton-eks:models", "models"), CHANGED.replace("triton-eks:models", "models")),
    ],
    ids=["LF", "CR LF", "a byte order mark", "no last line end", "mixed", "another spelling"],
)
def test_one_line_is_different_and_no_other_byte(tmp_path: Path, before: str, after: str) -> None:
    change(opened(tmp_path, before.encode()))
    assert (tmp_path / "Pulumi.dev.yaml").read_bytes() == after.encode()


def test_lines_that_are_new_end_as_most_do(tmp_path: Path) -> None:
    editor = opened(tmp_path, TEXT.replace("\n", "\r\n").encode())
    editor.config["new"] = {"a": [1, 2]}
    editor.save({("new",): {"a": [1, 2]}})
    after = (tmp_path / "Pulumi.dev.yaml").read_bytes().decode()
    assert after.count("\r\n") == after.count("\n")
    added = [line[2:] for line in difflib.ndiff(TEXT.splitlines(), after.splitlines()) if line[0] == "+"]
    assert "  new:" in added


def test_link_and_mode_stay(tmp_path: Path) -> None:
    real = tmp_path / "shared.yaml"
    real.write_text(TEXT)
    real.chmod(0o640)
    link = tmp_path / "Pulumi.dev.yaml"
    link.symlink_to("shared.yaml")
    change(StackEditor(link))
    assert link.readlink() == Path("shared.yaml")
    assert real.read_text() == CHANGED
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_protected_file_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    editor = opened(tmp_path, TEXT.encode())
    (tmp_path / "Pulumi.dev.yaml").chmod(0o444)
    with pytest.raises(NotWritten, match="is write-protected"):
        change(editor)
    assert (tmp_path / "Pulumi.dev.yaml").read_text() == TEXT


def test_a_change_that_would_change_something_else_is_refused(tmp_path: Path) -> None:
    """Two keys share a mapping through an anchor, so a change of one changes both."""
    text = "config:\n  triton-eks:models: &shared {days: 90}\n  copy: *shared\n"
    with pytest.raises(NotEditable, match=r"config\.triton-eks:models\.days cannot be changed without changing something"):
        change(opened(tmp_path, text.encode()))
    assert (tmp_path / "Pulumi.dev.yaml").read_text() == text


def test_a_content_that_is_refused_is_never_in_the_file(tmp_path: Path) -> None:
    """Not even for a moment: a killed command leaves a usable file."""
    editor = opened(tmp_path, TEXT.encode())
    judged = []

    def refuse(content: bytes) -> None:
        judged.append((content.decode(), (tmp_path / "Pulumi.dev.yaml").read_text()))
        raise ValueError

    models = editor.section("triton-eks:models")
    assert models is not None
    models["days"] = 30
    with pytest.raises(ValueError):
        editor.save({("triton-eks:models", "days"): 30}, refuse)
    assert judged == [(CHANGED, TEXT)]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("Pulumi.dev.yaml", TEXT)]


def test_of_two_commands_that_change_the_file_at_a_time_the_later_one_is_told_and_loses_nothing(tmp_path: Path) -> None:
    first, second = opened(tmp_path, TEXT.encode()), StackEditor(tmp_path / "Pulumi.dev.yaml")
    change(first)
    with pytest.raises(NotWritten) as refused:
        change(second, days=7)
    assert str(refused.value) == (
        f"{tmp_path}/Pulumi.dev.yaml: somebody else has changed it meanwhile, and it is left as they wrote it; run the same "
        "command again"
    )
    assert (tmp_path / "Pulumi.dev.yaml").read_text() == CHANGED
    assert [path.name for path in tmp_path.iterdir()] == ["Pulumi.dev.yaml"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"config: [\n", ":2:1: not valid YAML: did not find expected node content"),
        (b"config:\n  a: 010\n", ":2:6: 010 begins with a zero"),
        (b"config:\n  a: 1\n  triton-eks:a: 2\n", ":3: triton-eks:a and a (line 2) are two spellings of one key"),
        (b"\xff", ":1:1: not UTF-8"),
        (b"", ": has no mapping `config`; is it a Pulumi stack file?"),
    ],
)
def test_a_file_that_cannot_be_read_is_not_opened(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(NotEditable) as refused:
        opened(tmp_path, content)
    assert str(refused.value).startswith(f"{tmp_path}/Pulumi.dev.yaml{said}")
