"""Golden files and snapshots: reviewed files that the code's output must equal."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

OPTION = "--update-golden"


def may_update(asked: bool, environ: Mapping[str, str]) -> bool:
    """Return whether to write golden files. Raises pytest.UsageError in CI, where they would not be reviewed."""
    if asked and environ.get("CI", "").lower() not in ("", "0", "false"):
        raise pytest.UsageError(f"{OPTION} is not for CI: write the golden files on your own machine, and review them there")
    return asked


@dataclass(frozen=True)
class Golden:
    """Compares texts with their golden files, or writes the files."""

    update: bool

    def check(self, file: Path, text: str) -> None:
        """Fail with the difference if `file` does not contain `text`.

        With `--update-golden` the file is written first, and the test still fails. A run that compared a text with itself
        must not look like a successful check.
        """
        reviewed = file.read_text(encoding="utf-8") if file.exists() else ""
        if file.exists() and text == reviewed:
            return
        difference = "\n".join(
            difflib.unified_diff(reviewed.splitlines(), text.splitlines(), "reviewed", "made now", lineterm="")
        )
        if self.update:
            file.write_text(text, encoding="utf-8")
            pytest.fail(f"{file} is written anew; review it and run again without {OPTION}\n{difference}", pytrace=False)
        pytest.fail(f"{file} is not what is made now; {OPTION} writes it\n{difference}", pytrace=False)
