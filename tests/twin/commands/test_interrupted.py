"""Repair of a killed engine's leftovers before the next run."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from twin.commands import interrupted
from twin.engine import engine
from twin.engine.engine import Engine
from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Record, Service


@pytest.fixture
def working_on(tmp_path: Path) -> Iterator[Callable[[str], Record]]:
    """Return a function that starts a process marked as an engine on this stack."""
    home = TwinHome(tmp_path)

    def start(stack: str) -> Record:
        return processes.start(home, Service(engine.process_name(stack), ("sleep", "60"), {"PATH": os.defpath}, tmp_path))

    yield start
    processes.stop_all(home, seconds=0)


def test_what_a_killed_engine_left_running_is_ended_and_a_preview_of_another_stack_is_not(
    tmp_path: Path, working_on: Callable[[str], Record]
) -> None:
    left, preview = working_on("local"), working_on("dev")
    home = TwinHome(tmp_path)
    processes.wait_until(lambda: len(processes.marked(home)) == 2, "the marks to be readable", 60)

    interrupted.clear(home, Engine(home, Path("no-engine-is-needed"), {}), "local")

    assert (left.alive(), preview.alive()) == (False, True)


def test_attributes_that_a_kill_cut_off_are_removed_and_whole_ones_stay(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    stacks = tmp_path / "state" / ".pulumi" / "stacks" / "triton-eks"
    stacks.mkdir(parents=True)
    (stacks / "local.json").write_text("{}")
    (stacks / "local.json.attrs").write_text("")
    (stacks / "dev.json.attrs").write_text('{"md5": "')
    (stacks / "prod.json.attrs").write_text('{"md5": "eA=="}')

    interrupted.clear(home, Engine(home, Path("no-engine-is-needed"), {}), "local")

    assert sorted(path.name for path in stacks.iterdir()) == ["local.json", "prod.json.attrs"]
