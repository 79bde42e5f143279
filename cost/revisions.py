"""The settings of a stack as of a git revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

from infra.settings import Settings, SettingsError, load, load_stack_file
from infra.settings.source import read_config
from infra.stack_names import file_of, stack_file

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 60


class StackUnreadable(RuntimeError):
    """A stack file or a revision that this program cannot read; the message says which and why."""


class NoSuchRevision(StackUnreadable):
    """A revision that git does not know."""


def settings_now(stack: str) -> Settings:
    """The settings in the working tree. Raises NoSuchStack and StackUnreadable."""
    try:
        return load_stack_file(file_of(stack, ROOT))
    except SettingsError as error:
        raise StackUnreadable(str(error)) from None


def settings_at(revision: str, stack: str) -> Settings | None:
    """The settings as of a revision, as this program reads them; None where that revision has no such stack.

    Raises NoSuchRevision, and StackUnreadable where the file of then is not valid now.
    """
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise NoSuchRevision(f"--against {revision}: git knows no commit of that name (branches, tags and hashes are names)")
    content = _git("show", f"{commit.decode().strip()}:{stack_file(stack)}")
    if content is None:
        return None
    try:
        return load(read_config(content, f"{revision}:{stack_file(stack)}"), stack)
    except SettingsError as error:
        raise StackUnreadable(f"as of {revision}: {error}") from None


def _git(*arguments: str) -> bytes | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
    return done.stdout if done.returncode == 0 else None
