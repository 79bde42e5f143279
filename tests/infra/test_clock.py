"""The program reads no clock: its registrations depend only on the stack file and the day of the file's check."""

from __future__ import annotations

import ast
from datetime import date

import pytest

from spec.versions import support_type
from tests.paths import ROOT
from tests.spec.stack_config import settings

CLOCKS = {"today", "now", "utcnow", "time", "time_ns", "monotonic"}


def test_no_module_of_the_program_asks_for_the_day_or_the_time() -> None:
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "infra").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS
    ]
    assert asked == []


@pytest.mark.parametrize(("day", "support"), [(date(2027, 3, 26), "STANDARD"), (date(2027, 3, 27), "EXTENDED")])
def test_the_kind_of_support_is_that_of_the_day_that_the_file_was_judged_by(day: date, support: str) -> None:
    read = settings({"cluster.version": "1.35"}, today=day)
    assert (read.today, support_type(read.cluster.version, read.today)) == (day, support)
