"""A moto account with room for a stack, an empty checkout, and a `pulumi` that records its calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from moto import mock_aws

from stackctl.preflight.checks import service_quotas
from stackctl.quotas import Quota
from tests.aws_environment import use_none_of_the_developers

_PULUMI = """#!{python}
import json, pathlib, sys
book = pathlib.Path({book!r})
calls = json.loads(book.read_text()) if book.exists() else {{"calls": [], "fails": []}}
calls["calls"].append(sys.argv[1:])
book.write_text(json.dumps(calls))
sys.exit(255 if sys.argv[1] in calls["fails"] or " ".join(sys.argv[1:3]) in calls["fails"] else 0)
"""


@dataclass(frozen=True)
class Pulumi:
    """The fake `pulumi`."""

    book: Path

    def fails_at(self, *words: str) -> None:
        """Make calls that begin with these words fail."""
        self.book.write_text(json.dumps({"calls": [], "fails": words}))

    @property
    def calls(self) -> list[str]:
        return [" ".join(words) for words in json.loads(self.book.read_text())["calls"]] if self.book.exists() else []


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pulumi:
    """Put it first on PATH; it knows no stack, and is logged in."""
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(_PULUMI.format(python=sys.executable, book=str(tmp_path / "book.json")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("PULUMI_")]:
        monkeypatch.delenv(name)
    made = Pulumi(tmp_path / "book.json")
    made.fails_at("stack select")
    return made


@dataclass
class Account:
    """The account's quotas by code; unnamed quotas are large."""

    quotas: dict[str, int]

    def lacks(self, *quotas: Quota) -> None:
        self.quotas.update({quota.code: 0 for quota in quotas})


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Account]:
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    made = Account({})
    # moto's service quotas lack EC2's.
    value = lambda _readers, need: made.quotas.get(need.quota.code, 1000)  # noqa: E731
    monkeypatch.setattr(service_quotas, "quota_value", value)
    with mock_aws():
        yield made


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory: a checkout without stacks."""
    (tmp_path / "stacks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path
