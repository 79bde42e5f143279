"""`make bench` measures everything on the results page, except what the benchmarks page excludes by name."""

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
"""Kind of record -> the first words of the page's reason to exclude it."""
WITHOUT_COMMAND = {
    "canary gate": "python benchmarks/canary_gate.py",
    "soak": "python -m tests.system.e2e.soak --minutes 30 --record",
}
"""Kind -> the command that made the record, for records that do not name it."""
HOW_MUCH = frozenset({"--minutes", "--model", "--rounds", "--seed", "--sizes"})
"""Options that change only the amount or the seed: fewer models, rounds, minutes or files, or other random ones."""


def measured(command: str) -> tuple[str, ...]:
    """Return the program of a command and its options, except the options for the amount or the seed."""
    program, *words = shlex.split(command)[1:]
    if program == "-m":
        module, *words = words
        program = f"{module.replace('.', '/')}.py"
    options = " ".join(words).split("--")[1:]
    return program, *sorted(option.strip() for option in options if f"--{option.split()[0]}" not in HOW_MUCH)


def shown() -> dict[str, dict[str, Any]]:
    """Return the records that have a table on the page, by name."""
    tables = results_page.PAGE.read_text().partition("## All records")[0]
    names = re.findall(r"(?m)^`results/([^`]+)`: ", tables)
    return {name: json.loads((RESULTS / name).read_text()) for name in names}


def recipe() -> set[tuple[str, ...]]:
    """Return the measurement of each line of `make bench`."""
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
