"""The recorded release: what each stack registered as of one revision.

`python -m tests.system.upgrade.release [REVISION]` (`make record-release`) records one: the snapshots that were reviewed
with that revision, which its own tests hold against its program. A copy, because a shallow clone has no history.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from tests.paths import ROOT
from tests.system.component.engine.stack_run import STACKS
from tests.system.upgrade import accepted
from tests.system.upgrade.comparison import Snapshot

SNAPSHOTS = "tests/system/component/snapshots"
RECORDED = Path(__file__).parent / "recorded"
_REVISION = "release.json"


class NotRecorded(RuntimeError):
    """A revision that cannot be recorded; the text says why."""


def recorded(stack: str) -> Snapshot:
    """Return what the stack registered in the recorded release."""
    return Snapshot((RECORDED / f"{stack}.json").read_text())


def present(stack: str) -> Snapshot:
    """Return what the stack registers now; tests/system/component/test_snapshots.py holds that file against the program."""
    return Snapshot((ROOT / SNAPSHOTS / f"{stack}.json").read_text())


def revision() -> str:
    """The commit that is recorded."""
    found: str = json.loads((RECORDED / _REVISION).read_text())["revision"]
    return found


def record(name: str, folder: Path = RECORDED, accepted_file: Path = accepted.FILE) -> str:
    """Records the revision `name` and empties the list of what was accepted; the commit. Raises NotRecorded."""
    commit = _git("rev-parse", "--verify", f"{name}^{{commit}}").strip()
    texts = {stack: _git("show", f"{commit}:{SNAPSHOTS}/{stack}.json") for stack in STACKS}
    folder.mkdir(exist_ok=True)
    for stack, text in texts.items():
        (folder / f"{stack}.json").write_text(text)
    (folder / _REVISION).write_text(json.dumps({"revision": commit}) + "\n")
    head = [line for line in accepted_file.read_text().splitlines() if line.startswith("#")]
    accepted_file.write_text("\n".join([*head, "[]", ""]))
    return commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotRecorded(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def main(revision: Annotated[str, typer.Argument()] = "HEAD") -> None:
    """Record what each stack registers as of a revision."""
    try:
        commit = record(revision)
    except NotRecorded as error:
        sys.exit(f"error: {error}")
    print(f"recorded {commit} in {RECORDED.relative_to(ROOT)}; {accepted.FILE.relative_to(ROOT)} is empty. Commit both")


if __name__ == "__main__":
    typer.run(main)
