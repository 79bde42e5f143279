"""Golden files are written on request, by a run that fails, and never in CI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import Golden, may_update


def failure(compare: Callable[[], None]) -> str:
    with pytest.raises(pytest.fail.Exception) as failed:
        compare()
    return str(failed.value)


def test_what_equals_its_golden_file_passes(tmp_path: Path) -> None:
    file = tmp_path / "golden"
    file.write_text("as reviewed\n")
    Golden(update=False).check(file, "as reviewed\n")
    Golden(update=True).check(file, "as reviewed\n")


def test_a_difference_is_shown_and_not_written(tmp_path: Path) -> None:
    file = tmp_path / "golden"
    file.write_text("a\nb\n")
    told = failure(lambda: Golden(update=False).check(file, "a\nc\n"))
    assert "-b\n+c" in told and "--update-golden writes it" in told
    assert file.read_text() == "a\nb\n"


@pytest.mark.parametrize("before", ["a\n", None])
def test_the_run_that_writes_fails_and_the_next_one_passes(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "golden"
    if before is not None:
        file.write_text(before)
    assert "review it and run again" in failure(lambda: Golden(update=True).check(file, "b\n"))
    Golden(update=False).check(file, "b\n")


def test_a_golden_file_that_is_not_there_equals_nothing(tmp_path: Path) -> None:
    failure(lambda: Golden(update=False).check(tmp_path / "golden", ""))
    assert not (tmp_path / "golden").exists()


@pytest.mark.parametrize("ci", ["true", "1", "yes"])
def test_ci_writes_none(ci: str) -> None:
    with pytest.raises(pytest.UsageError, match="not for CI"):
        may_update(True, {"CI": ci})
    assert not may_update(False, {"CI": ci})


@pytest.mark.parametrize("environ", [{}, {"CI": ""}, {"CI": "false"}, {"CI": "0"}])
def test_a_person_may(environ: dict[str, str]) -> None:
    assert may_update(True, environ)
