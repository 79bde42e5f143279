"""The lines that turn a person's shell into a twin's, and back: what `eval "$(python3 -m twin env)"` runs.

They are for any POSIX shell (bash, zsh, dash). Whatever of AWS, Kubernetes, Helm and Pulumi the shell had is out of reach as
long as it is the twin's, and there again after `leave_twin`.
"""

import os
import shlex
from collections.abc import Iterable, Mapping

from twin.host.environment import foreign
from twin.host.home import TwinHome

LEAVE = "leave_twin"
"""The shell function that gives the shell back what it had."""
MARK = "TWIN_SHELL"
"""Set in a twin's shell: that twin's home."""
_PATH = "_twin_path_before"
"""The shell variable, exported to nobody, that holds the shell's own PATH: a launcher of python3 (pyenv's) may have put
something in front of it before this program sees it.
"""


def enter(home: TwinHome, variables: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return lines that set `variables`, unset what else names an account or a cluster in `before`, and define `leave_twin`.

    `before` is the shell's environment. In a shell that is a twin's already, its `leave_twin` knows what it had before, and
    stays.
    """
    wanted = {**variables, MARK: str(home.path)}
    gone = foreign(before, keep=wanted)
    lines = [f"unset {name}" for name in gone] + [_export(name, value) for name, value in wanted.items()]
    if MARK not in before:
        lines = [f'{_PATH}="$PATH"', *lines, *_function(sorted({*gone, *wanted} - {"PATH"}), before)]
    return "\n".join(lines)


def refuse(message: str) -> str:
    """Return the lines that show `message` and return false, so that `eval "$(…)" && kubectl …` goes no further."""
    return f"printf '%s\\n' {shlex.quote(f'error: {message}')} >&2\nfalse"


def belongs_to(home: TwinHome) -> bool:
    """Return whether the shell that this command was typed in is that twin's."""
    return os.environ.get(MARK) == str(home.path)


def _function(names: Iterable[str], before: Mapping[str, str]) -> list[str]:
    """Return the definition of `leave_twin`: the values as they are now stand in its text, and are exported to nobody."""
    body = [_export(name, before[name]) if name in before else f"unset {name}" for name in names]
    body += [f'export PATH="${_PATH}"', f"unset {_PATH}"]
    return [f"{LEAVE}() {{", *(f"  {line}" for line in body), f"  unset -f {LEAVE}", "}"]


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"
