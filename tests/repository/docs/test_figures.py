"""Figures on the benchmark pages: a section that names a record prints only figures of that record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from benchmarks import results_page
from benchmarks.measurement import RESULTS
from tests.paths import ROOT

PAGES = [path for path in sorted((ROOT / "benchmarks").glob("*.md")) if path != results_page.PAGE]
_RECORD = re.compile(r"results/([a-z-]+-\d{4}-\d\d-\d\d-[0-9a-f]{8}\.json)")
_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\d-])")
_UNIT = r" (?:ms|s|MB/s|MiB|times|%|requests/s)\b"
_MEASURED = re.compile(rf"{_NUMBER.pattern}(?={_UNIT}| to -?[\d.]+{_UNIT})|(?<![\w.,])-?\d+\.\d+(?!\d)")
"""A figure in a sentence: a number with a unit or a decimal point. Other numbers are counts, names and dates."""
SETTINGS: dict[str, set[str]] = {
    "README.md: ## Batching: tuned values against others": {"2.51"},
    "README.md: ## The gateway": {"20", "30", "95"},
    "canary-gate.md: ## Simulated rollouts": {"25", "50", "95", "100", "150"},
}
"""Figures that describe how something was measured, and are no results; by page and section."""


def sections() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each section that names records: its page and title, its text without code and links, and its records."""
    for page in (*PAGES, ROOT / "docs" / "canary-gate.md"):
        for section in re.split(r"(?m)^(?=###? )", page.read_text()):
            records = list(dict.fromkeys(_RECORD.findall(section)))
            if records:
                title = re.sub(r" `.*", "", section.partition("\n")[0])
                yield f"{page.name}: {title}", re.sub(r"`[^`]*`|\]\([^)]*\)", "", section.partition("\n")[2]), records


def figures(text: str) -> Iterator[str]:
    """Yield the figures of a section: every number of its tables, and the measured numbers of its sentences."""
    for line in text.splitlines():
        yield from (found[0] for found in (_NUMBER if line.startswith("|") else _MEASURED).finditer(line))


def recorded(record: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the numbers of a record and of its table on the results page, with half a unit of each last digit."""
    yield from ((number, 0.0) for number in _numbers(record))
    for line in results_page.tables(record):
        yield from (_printed(found[0]) for found in _NUMBER.finditer(line))


def unknown(text: str, records: Iterable[dict[str, Any]]) -> list[str]:
    """Return the figures of a section that match no record, however they are rounded."""
    known = [number for record in records for number in recorded(record)]
    missing = []
    for figure in figures(text):
        value, half = _printed(figure)
        if not any(abs(abs(value) - abs(number)) <= half + own + 1e-9 for number, own in known):
            missing.append(figure)
    return missing


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _numbers(below)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
        # The pages print a share in percent.
        if 0 < value < 1:
            yield 100 * value


def _printed(figure: str) -> tuple[float, float]:
    digits = figure.replace(",", "")
    return float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2])


SECTIONS = {where: (text, records) for where, text, records in sections()}


@pytest.mark.parametrize("where", SECTIONS)
def test_a_figure_is_in_the_record_that_its_section_names(where: str) -> None:
    text, names = SECTIONS[where]
    missing = unknown(text, [json.loads((RESULTS / name).read_text()) for name in names])
    assert sorted(set(missing) - SETTINGS.get(where, set())) == []


def test_a_figure_that_is_not_in_the_record_is_found() -> None:
    record = {"kind": "modelctl tune", "runs": [{"p99_ms": 12.34, "share": 0.03}]}
    said = "| way | p99 |\n|---|---|\n| tuned | 12.3, 12.4 |\nIt took 12.3 ms, of 7 rounds 3.0 %, and 13 s on 2026-11-24."
    assert unknown(said, [record]) == ["12.4", "13"]


def test_the_tables_of_autoscaling_are_those_of_the_newest_records() -> None:
    lines = [line.strip() for line in (ROOT / "benchmarks" / "autoscaling.md").read_text().splitlines()]
    said = [line for line in lines if re.match(r"\| `[a-z -]+` \| (\w[\w -]+%?: )?[\d.]+.* %, [\d.]+.* h \|", line)]
    said += [line for line in lines if re.match(r"\| (ours|bounded[a-z, ]+) \| \d+ \|", line)]
    page = results_page.PAGE.read_text().splitlines()
    assert len(said) == 5 + 5 + 4
    assert [line for line in said if line not in page] == []
