"""Identify the directories of twins: `up` may fill them, and `down` may remove them.

The proof is a marker file. Only a twin writes it, into a directory that it created or found empty, and it names that
directory, so a copy does not count. Only entries that a twin creates are removed from its directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from spec.failure import NOT_TRIED, Failure
from spec.files import write_whole

MARKER = "twin.json"
LOCK = "lock"
ENDPOINTS = "endpoints.json"
CONTENTS = frozenset(
    {
        *(LOCK, ENDPOINTS, "kubeconfig", "last-inference.json"),
        *("bin", "cache", "charts", "engine", "etcd", "helm", "loads", "logs", "nodes", "pins", "pki", "pods", "program"),
        *("project", "pulumi", "run", "scratch", "state", "tmp"),
        *("keda", "prometheus-adapter"),  # of earlier versions
        *(".cache", ".config", ".local"),  # of programs whose home it is
    }
)
"""Every entry that a twin creates directly in its directory, next to the marker."""
_PARTIAL = ".new-"
"""The name of a file that is not completely written yet contains this (spec/files.py)."""
_CHECKOUT = Path(__file__).resolve().parents[2]
_LONGEST = 1000
"""The maximum bytes of the path: Linux allows 4,095 for the deepest file."""
_SHOWN = 4


class NotATwin(Failure):
    """The directory does not belong to a twin, or must not become one; the text gives the reason and the remedy."""

    exit_code = NOT_TRIED


def resolved(given: str) -> Path:
    """Return the directory that TWIN_HOME names, with links resolved. Raises NotATwin for a name that a twin cannot have."""
    if any("\udc80" <= character <= "\udcff" for character in given):  # a byte outside this Python's encoding
        raise NotATwin(
            f"TWIN_HOME is {given!r}, in which this Python, which reads paths as {sys.getfilesystemencoding()}, cannot read "
            "every character: set it to a directory in ASCII, or LC_ALL to C.UTF-8 and PYTHONUTF8 to 1"
        )
    if not given.isprintable():
        raise NotATwin(f"TWIN_HOME is {given!r}: a path with a character that cannot be seen; set it to another directory")
    try:
        path = Path(given).expanduser().resolve()
        path.exists()
    except (OSError, RuntimeError) as error:  # no such user, a name that is too long, a loop of links
        raise NotATwin(f"TWIN_HOME is {_short(given)}: {_cause(error)}; set it to another directory") from None
    if len(os.fsencode(path)) > _LONGEST:
        raise NotATwin(f"TWIN_HOME is {_short(given)}: longer than {_LONGEST} bytes; set it to a shorter path")
    return path


def check(path: Path) -> bool:
    """Return whether the directory is a twin's; False if it is missing or empty. Raises NotATwin for everything else."""
    try:
        if not path.exists():
            _refuse_what_is_never_one(path)
            return False
        if not path.is_dir():
            raise NotATwin(f"{path} is a file: set TWIN_HOME to a directory that is empty, or does not exist yet")
        if _is_marked(path):
            return True
        _refuse_what_is_never_one(path)
        if _is_of_an_earlier_version(path):
            return True
        _refuse_unless_empty(path)
        return False
    except OSError as error:
        raise NotATwin(f"{path} cannot be looked at: {_cause(error)}; set TWIN_HOME to a directory of yours") from None


def claim(path: Path) -> None:
    """Make the directory a twin's, unless it is one. Raises NotATwin if it is not usable or belongs to something else."""
    is_one = check(path)
    if is_one and _is_marked(path):
        return
    try:
        content = {"directory": str(path), "madeIt": is_one or not path.exists()}
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / MARKER, (json.dumps(content, indent=2) + "\n").encode(), mode=0o644)
    except OSError as error:
        if not is_one:  # a directory of an earlier version is recognized without a marker
            raise NotATwin(f"{path} cannot be written: {_cause(error)}; set TWIN_HOME to a directory of yours") from None


def remove(path: Path, *, keep_directory: bool) -> list[str]:
    """Remove a twin's files; return the names of other entries, which stay.

    The directory is removed too if a twin created it. Nothing is written. Raises NotATwin, and OSError.
    """
    if not check(path):
        return []
    _refuse_what_is_never_one(path)
    made = bool((_marker(path) or {"madeIt": True}).get("madeIt"))
    foreign = _foreign(path)
    for entry in sorted(path.iterdir()):
        if entry.name not in {*foreign, MARKER, LOCK}:
            _remove(entry)
    # Remove these last, so that an interrupted removal continues when it is run again.
    (path / MARKER).unlink(missing_ok=True)
    (path / LOCK).unlink(missing_ok=True)
    if made and not keep_directory:
        with contextlib.suppress(OSError):  # not empty: another program has put something into it
            path.rmdir()
    return foreign


def _refuse_what_is_never_one(path: Path) -> None:
    for other, name in (_CHECKOUT, "the checkout"), *((home, "your home directory") for home in _home_directories()):
        if path == other:
            raise NotATwin(f"{path} is {name}, which no twin takes: set TWIN_HOME to a directory of its own")
        if other.is_relative_to(path):
            raise NotATwin(f"{path} has {name} in it ({other}): set TWIN_HOME to a directory of its own")


def _home_directories() -> Iterator[Path]:
    with contextlib.suppress(RuntimeError, OSError):
        yield Path.home().resolve()
    with contextlib.suppress(KeyError, OSError):  # regardless of HOME
        yield Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()


def _marker(path: Path) -> dict[str, object] | None:
    try:
        content = json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _is_marked(path: Path) -> bool:
    """Return whether the directory has its own marker. Raises NotATwin if the marker names another directory."""
    content = _marker(path)
    if content is None:
        return False
    if content.get("directory") != str(path):
        raise NotATwin(
            f"{path} is a copy of the twin's directory {content.get('directory')}, or was moved from there: move it back, "
            "or remove it yourself when nothing in it is needed any more"
        )
    return True


def _is_of_an_earlier_version(path: Path) -> bool:
    """Return whether every entry fits a twin of a version without markers."""
    names = {entry.name for entry in path.iterdir()}
    if MARKER in names or not names <= CONTENTS or LOCK not in names:
        return False
    return (path / "pki" / "ca.crt").is_file() and {"etcd", "run", "logs"} <= names


def _foreign(path: Path) -> list[str]:
    """Return the entries that a twin does not create."""
    return sorted(
        entry.name
        for entry in path.iterdir()
        if entry.name not in CONTENTS and entry.name != MARKER and not entry.name.startswith(_PARTIAL)
    )


def _refuse_unless_empty(path: Path) -> None:
    """Raise NotATwin unless the directory is empty, but for a truncated marker or a lock that a killed twin left."""
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(_PARTIAL))
    if set(names) <= {MARKER, LOCK}:
        return
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    raise NotATwin(
        f"{path} is not a twin's directory: it has {shown}, and no {MARKER} as a twin writes it. Nothing in it was touched. "
        "Set TWIN_HOME to a directory that is empty, or does not exist yet. What a twin of an earlier version left and this "
        "one does not recognize, remove yourself"
    )


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _short(given: str) -> str:
    return given if len(given) <= 100 else f"{given[:80]}… ({len(given)} characters)"


def _cause(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
