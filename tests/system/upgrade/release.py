"""The recorded release: the registrations of each stack in one revision.

`python -m tests.system.upgrade.release` (`make record-release`) records the reviewed snapshots of the checkout. It is a
copy, because a shallow clone has no history.
"""

from __future__ import annotations

import base64
import json
import lzma
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import typer

from tests import snapshots
from tests.paths import ROOT
from tests.system.upgrade.comparison import Snapshot

RECORD = Path(__file__).parent / "recorded.txt"
"""JSON, compressed by xz, as base64: `revision` and `stacks`, the snapshot of each."""


class NotRecorded(RuntimeError):
    """A checkout that cannot be recorded; the text has the reason."""


def recorded(stack: str) -> Snapshot:
    """Return the registrations of the stack in the recorded release."""
    return Snapshot(_content(RECORD)["stacks"][stack])


def present(stack: str) -> Snapshot:
    """Return the stack's present snapshot; tests/system/component/test_snapshots.py compares it with the program."""
    return Snapshot(snapshots.read(stack))


def revision(file: Path = RECORD) -> str:
    """Return the recorded commit."""
    found: str = _content(file)["revision"]
    return found


def record(file: Path = RECORD) -> str:
    """Record the snapshots of the checkout's commit, and return the commit. Raises NotRecorded if they differ from it."""
    if changed := _git("status", "--porcelain", "--", str(snapshots.FOLDER)):
        raise NotRecorded(f"commit the snapshots first: {' '.join(changed.split())}")
    commit = _git("rev-parse", "HEAD").strip()
    content = {"revision": commit, "stacks": {stack: snapshots.read(stack) for stack in snapshots.STACKS}}
    compressed = lzma.compress(json.dumps(content, sort_keys=True).encode(), preset=9)
    file.write_bytes(base64.encodebytes(compressed))
    return commit


@cache
def _content(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(lzma.decompress(base64.b64decode(file.read_bytes())))
    return content


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRecorded(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Record the registrations of each stack in the checkout's commit."""
    try:
        commit = record()
    except NotRecorded as error:
        sys.exit(f"error: {error}")
    print(f"recorded {commit} in {RECORD.relative_to(ROOT)}; commit it")


if __name__ == "__main__":
    typer.run(main)
