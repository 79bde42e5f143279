"""`make bench` measures what the page of results shows, but for what the page of benchmarks says that it leaves out."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from benchmarks import results_page
from benchmarks.measurement import RESULTS
from tests.paths import ROOT

LEFT_OUT = {
    "gpu": "* [models on a GPU](#a-gpu),",
}
"""Kind of record to how the page begins to say why it is left out."""
WITHOUT_COMMAND = {
    "canary gate": "python benchmarks/canary_gate.py",
    "soak": "python -m tests.system.e2e.soak --minutes 30 --record",
}
"""The command that made a record which does not say it, by kind."""
HOW_MUCH = frozenset({"--minutes", "--model", "--rounds", "--seed", "--sizes"})
"""Options of a measurement of the same thing: fewer of its models, rounds, minutes or files, or others by chance."""


def measured(command: str) -> tuple[str, ...]:
    """Return the program of a command, and its options but for those of how much is measured."""
    program, *words = shlex.split(command)[1:]
    if program == "-m":
        module, *words = words
        program = f"{module.replace('.', '/')}.py"
    options = " ".join(words).split("--")[1:]
    return program, *sorted(option.strip() for option in options if f"--{option.split()[0]}" not in HOW_MUCH)


def shown() -> dict[str, dict[str, Any]]:
    """Return the records that the page has tables of, by name."""
    tables = results_page.PAGE.read_text().partition("## All records")[0]
    names = re.findall(r"(?m)^`results/([^`]+)`: ", tables)
    return {name: json.loads((RESULTS / name).read_text()) for name in names}


def recipe() -> set[tuple[str, ...]]:
    """Return what each line of `make bench` measures."""
    (lines,) = re.findall(r"(?m)^bench:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    return {measured(line) for line in lines.splitlines()}


def test_every_record_that_is_shown_is_made_by_make_bench_or_left_out_by_name() -> None:
    records = {name: record for name, record in shown().items() if record["kind"] not in LEFT_OUT}
    commands = {
        name: WITHOUT_COMMAND.get(record["kind"]) or record.get("command") or record["conditions"]["command"]
        for name, record in records.items()
    }
    made = recipe()
    assert [command for command in commands.values() if measured(command) not in made] == []
    assert {record["kind"] for record in records.values()} >= {"autoscaling", "batching", "canary gate", "delivery", "soak"}


def test_what_is_left_out_is_on_the_page_with_the_reason() -> None:
    lines = (ROOT / "benchmarks" / "README.md").read_text().splitlines()
    assert [kind for kind, begins in LEFT_OUT.items() if not any(line.startswith(begins) for line in lines)] == []
    assert {record["kind"] for record in shown().values()} >= LEFT_OUT.keys()


def test_every_program_of_make_bench_is_there() -> None:
    programs = {program for program, *_ in recipe()}
    assert [program for program in programs if not (ROOT / program).is_file()] == []


def test_measurements_differ_by_what_is_measured_and_not_by_how_much_of_it() -> None:
    assert measured("python benchmarks/a.py --model x --rounds 3") == measured("$(PY) benchmarks/a.py")
    assert measured("python benchmarks/a.py --pace 90") != measured("python benchmarks/a.py")
    assert measured("python -m a.b --minutes 30 --record") == ("a/b.py", "record")
    assert measured("python a.py --start 240 --at-once") == measured("python a.py --at-once --start 240")
