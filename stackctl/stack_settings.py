"""Read the settings of a stack, as of now or as of a git revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

from spec.failure import NOT_TRIED, Failure
from spec.settings import Settings, SettingsError, load, load_stack_file, read_config
from spec.stack_names import file_of, stack_file

_TIMEOUT_SECONDS = 60


class StackUnreadable(Failure):
    """A stack file of a revision that this program cannot read; the text says which and why."""

    exit_code = NOT_TRIED


class NoSuchRevision(StackUnreadable):
    """A revision that git does not know, or that has no such stack."""


def settings_of(stack: str) -> Settings:
    """Return the settings of `stacks/Pulumi.<stack>.yaml` below the working directory. Raises NoSuchStack, SettingsError."""
    return load_stack_file(file_of(stack, Path()))


def settings_at(revision: str, stack: str) -> Settings | None:
    """Return the settings as of a revision, as this program reads them; None where that revision has no such stack.

    Raises NoSuchRevision, and StackUnreadable where the file of then is not valid now.
    """
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise NoSuchRevision(f"--against {revision}: git knows no commit of that name (branches, tags and hashes are names)")
    # `./`: below the working directory, wherever that is in its repository.
    content = _git("show", f"{commit.decode().strip()}:./{stack_file(stack)}")
    if content is None:
        return None
    try:
        return load(read_config(content, f"{revision}:{stack_file(stack)}"), stack)
    except SettingsError as error:
        raise StackUnreadable(f"as of {revision}: {error}") from None


def _git(*arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)
    except OSError as error:
        why = "there is no git on PATH" if isinstance(error, FileNotFoundError) else f"git cannot be run: {error.strerror}"
        raise StackUnreadable(f"a comparison needs git, and {why}; install it, or leave --against out") from None
    except subprocess.TimeoutExpired:
        raise StackUnreadable(f"`git {arguments[0]}` has not ended after {_TIMEOUT_SECONDS} s; run it by hand") from None
    if done.returncode != 0 and b"not a git repository" in done.stderr:
        raise StackUnreadable("a comparison needs git, and this is no checkout of it; leave --against out, or clone it")
    return done.stdout if done.returncode == 0 else None
