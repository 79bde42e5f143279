"""Find the commit of a stack file with a release's serving settings. Their digest does not reveal them."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from modelctl.release.stacks import read_stack
from spec.settings.release import Release

_MOST_COMMITS = 50
_SECONDS = 30


def commit_with(file: Path, digest: str, release: Release) -> str | None:
    """Return the newest commit in which the stack file has these serving settings (`serving_digest`). None if none does.

    `release` has the pinned facts of the release's models and the derived settings. Settings that were never committed, or
    whose file is not in git, are not found.
    """
    commits = _git(file, "log", f"--max-count={_MOST_COMMITS}", "--format=%h", "--", file.name)
    return next((commit for commit in commits.split() if _digest_at(file, commit, release) == digest), None)


def _digest_at(file: Path, commit: str, release: Release) -> str | None:
    with tempfile.TemporaryDirectory(prefix="modelctl-wants-") as folder:
        earlier = Path(folder) / file.name
        earlier.write_text(_git(file, "show", f"{commit}:./{file.name}"), encoding="utf-8")
        stack, _ = read_stack(earlier)
    return stack.digest(release) if stack is not None else None


def _git(file: Path, *arguments: str) -> str:
    """Return git's output in the file's folder; empty if git fails or is missing."""
    command = ["git", "-C", str(file.parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
