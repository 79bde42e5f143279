"""`make state`: its Pulumi calls and their folders, and the continuation of an interrupted run."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.paths import ROOT

BUCKET = "s3://pulumi-state-123456789012-eu-west-1?region=eu-west-1"
UP = "up --stack main --config aws:region=eu-west-1"
_AWS = """#!/bin/sh
[ "$AWS_REGION $AWS_DEFAULT_REGION" = "eu-west-1 eu-west-1" ] || {{ echo "You must specify a region." >&2; exit 253; }}
case "$1" in
  sts) echo 123456789012 ;;
  s3api)
    refusal="when calling the HeadBucket operation"
    if [ -e {book}/refuses ]; then echo "An error occurred (403) $refusal: Forbidden" >&2; exit 254; fi
    [ -e {book}/bucket ] || {{ echo "An error occurred (404) $refusal: Not Found" >&2; exit 254; }} ;;
esac
"""
_PULUMI = """#!/bin/sh
echo "$PULUMI_BACKEND_URL $*" >> {book}/calls
case "$PULUMI_BACKEND_URL $*" in *"$(cat {book}/fails 2>/dev/null || echo nothing)"*) exit 255 ;; esac
"""


@dataclass(frozen=True)
class Checkout:
    """A checkout with only the Makefile, and an account."""

    folder: Path

    @property
    def local(self) -> Path:
        return self.folder / ".pulumi" / "triton-eks-state" / "123456789012-eu-west-1"

    def has_a_bucket(self) -> None:
        (self.folder / "bucket").touch()

    def fails_at(self, words: str) -> None:
        (self.folder / "fails").write_text(words)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder)}
        command = ["make", "--old-file", ".venv/.installed", "state", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    def calls(self) -> list[str]:
        """Return Pulumi's calls since the last query: in the bucket, or, as `local`, with its own files."""
        book = self.folder / "calls"
        lines = book.read_text().replace(BUCKET, "bucket").replace(f"file://{self.local}", "local").splitlines()
        book.unlink()
        return [line.replace(str(self.local), "LOCAL") for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "bootstrap").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    (tmp_path / "bin").mkdir()
    for name, text in (("aws", _AWS), ("pulumi", _PULUMI)):
        (tmp_path / "bin" / name).write_text(text.format(book=tmp_path))
        (tmp_path / "bin" / name).chmod(0o755)
    return Checkout(tmp_path)


MOVED = [
    "local stack export --stack main --file LOCAL/state.json",
    "bucket stack select --create main",
    "bucket stack import --stack main --file LOCAL/state.json",
]


def test_a_new_account_gets_its_bucket_which_then_has_its_own_state(checkout: Checkout) -> None:
    done = checkout.make("REGION=eu-west-1")
    assert done.returncode == 0, done.stderr
    assert checkout.calls() == ["local stack select --create main", f"local {UP}", *MOVED]
    assert done.stdout.splitlines()[-1] == f"state: {BUCKET}; `python3 -m stackctl init NAME` finds it"
    assert not checkout.local.exists()


def test_an_account_that_has_its_bucket_is_brought_up_to_date_from_there(checkout: Checkout) -> None:
    checkout.has_a_bucket()
    assert checkout.make("REGION=eu-west-1").returncode == 0
    assert checkout.calls() == ["bucket stack select --create main", f"bucket {UP}"]


@pytest.mark.parametrize("cut_short", ["local up", "export", "bucket stack select", "import"])
def test_a_run_that_was_cut_short_is_gone_on_with(checkout: Checkout, cut_short: str) -> None:
    where = cut_short.replace("local", f"file://{checkout.local}").replace("bucket", BUCKET)
    checkout.fails_at(where)
    assert checkout.make("REGION=eu-west-1").returncode != 0
    checkout.calls()
    checkout.has_a_bucket()
    checkout.fails_at("nothing")
    assert checkout.make("REGION=eu-west-1").returncode == 0
    assert checkout.calls() == ["local stack select --create main", f"local {UP}", *MOVED]


def test_a_bucket_that_cannot_be_looked_at_is_not_made_again(checkout: Checkout) -> None:
    (checkout.folder / "refuses").touch()
    done = checkout.make("REGION=eu-west-1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "make: whether the bucket pulumi-state-123456789012-eu-west-1 is there could not be seen, and nothing was done: "
        "An error occurred (403) when calling the HeadBucket operation: Forbidden"
    )
    assert not (checkout.folder / "calls").exists() and not checkout.local.exists()


def test_without_a_region_nothing_is_asked(checkout: Checkout) -> None:
    done = checkout.make()
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "make: name the region: make state REGION=us-west-2")
    assert not (checkout.folder / "calls").exists()
