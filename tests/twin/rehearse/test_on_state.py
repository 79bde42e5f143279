"""Judgement of an exported state: by this checkout's program, and by a revision's program."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.twin.rehearse.test_state import NETWORK, read
from twin.host.home import TwinHome
from twin.rehearse import on_state
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.previewed import Previewed

MOVED = Finding("interrupted", "replace", "aws:ec2/subnet:Subnet", "a", ("availabilityZone",), "nodes in it go", None)


@dataclass(frozen=True)
class Twin:
    """Fake servers: their engine is the name of their program."""

    program: str = "checkout"

    def engine(self) -> str:
        return self.program


@pytest.fixture
def previews(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rehearsal]:
    """The result of each program's preview."""
    found = {"checkout": Rehearsal((MOVED,), (), ()), "main": Rehearsal((), (), ())}

    @contextlib.contextmanager
    def account(*_: Any) -> Iterator[Twin]:
        yield Twin()

    monkeypatch.setattr(on_state.scratch, "account", account)
    monkeypatch.setattr(on_state.scratch, "of_revision", lambda _, revision: Twin(revision))
    monkeypatch.setattr(on_state, "_import", lambda *_: None)
    monkeypatch.setattr(on_state.previewed, "judge", lambda engine, *_: Previewed(found[engine], {}))
    return found


def judged(tmp_path: Path, revision: str | None) -> tuple[Rehearsal, Rehearsal | None]:
    state = read(tmp_path, {**NETWORK, "outputs": {"arn": "arn:aws:ec2:us-west-2:210987654321:network"}})
    made, before = on_state.judge(TwinHome(tmp_path / "home"), state, revision, Console(file=io.StringIO()))
    return made.judged, before


@pytest.mark.parametrize(
    ("network", "is_told"),
    [({"zones": 3}, True), ('{"zones": 3}', True), ({"zones": ["us-west-2a"]}, False), (None, False)],
)
def test_subnets_that_would_move_are_explained_where_the_zones_are_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, previews: dict[str, Rehearsal], network: Any, is_told: bool
) -> None:
    monkeypatch.setattr(on_state.stack_files, "read", lambda _: {"triton-eks:network": network})
    made, before = judged(tmp_path, None)
    assert any("the stack file has network.zones as a number" in note for note in made.notes) is is_told
    assert (made.findings, before) == ((MOVED,), None)


def test_a_revision_is_judged_on_the_same_state(tmp_path: Path, previews: dict[str, Rehearsal]) -> None:
    made, before = judged(tmp_path, "main")
    assert (made.findings, before) == ((MOVED,), previews["main"])
