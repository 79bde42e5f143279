"""Shell lines that turn a person's shell into a twin's, and back; `eval "$(python3 -m twin env)"` runs them.

They work in any POSIX shell (bash, zsh, dash). The twin's shell cannot reach the person's own AWS, Kubernetes, Helm and
Pulumi settings. `leave_twin` restores them.
"""

import os
import shlex
from collections.abc import Iterable, Mapping

from twin.host.environment import foreign
from twin.host.home import TwinHome

LEAVE = "leave_twin"
"""The shell function that restores the shell's previous variables."""
MARK = "TWIN_SHELL"
"""Set in a twin's shell to the twin's home."""
_PATH = "_twin_path_before"
"""The shell variable, not exported, that holds the shell's own PATH.

This program may see another PATH, because a launcher of python3 (like pyenv) may have prepended to it.
"""


def enter(home: TwinHome, variables: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return lines that enter the twin: set `variables`, unset other account and cluster variables, define `leave_twin`.

    `before` is the shell's environment. If the shell already belongs to a twin, its `leave_twin` stays, because it has the
    original values.
    """
    wanted = {**variables, MARK: str(home.path)}
    gone = foreign(before, keep=wanted)
    lines = [f"unset {name}" for name in gone] + [_export(name, value) for name, value in wanted.items()]
    if MARK not in before:
        lines = [f'{_PATH}="$PATH"', *lines, *_function(sorted({*gone, *wanted} - {"PATH"}), before)]
    return "\n".join(lines)


def refuse(message: str) -> str:
    """Return lines that print `message` and return false, so that `eval "$(…)" && kubectl …` stops."""
    return f"printf '%s\\n' {shlex.quote(f'error: {message}')} >&2\nfalse"


def belongs_to(home: TwinHome) -> bool:
    """Return whether this command was typed in that twin's shell."""
    return os.environ.get(MARK) == str(home.path)


def _function(names: Iterable[str], before: Mapping[str, str]) -> list[str]:
    """Return the definition of `leave_twin`. It contains the current values in its text, and exports none of them."""
    body = [_export(name, before[name]) if name in before else f"unset {name}" for name in names]
    body += [f'export PATH="${_PATH}"', f"unset {_PATH}"]
    return [f"{LEAVE}() {{", *(f"  {line}" for line in body), f"  unset -f {LEAVE}", "}"]


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"
