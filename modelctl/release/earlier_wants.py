"""Which commit of a stack file has the wants that a release was made from: their digest does not say what they were."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from modelctl.release.stacks import read_stack
from spec.settings.release import Release

_MOST_COMMITS = 50
_SECONDS = 30


def commit_with(file: Path, digest: str, release: Release) -> str | None:
    """Return the newest commit of this history in which the stack file has these wants (`serving_digest`); None: not found.

    `release` is what the release says of its models, and the settings that it derived.

    Not found are also wants that nobody has committed, and those of a file that git does not know.
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
    """Return what git says in the file's folder; nothing where it fails, or is not there."""
    command = ["git", "-C", str(file.parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
