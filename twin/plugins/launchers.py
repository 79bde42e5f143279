"""The executables under whose names the engine finds the twin's plugins."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from spec.files import write_whole

REPOSITORY = Path(__file__).resolve().parents[2]

MODULES = {
    "pulumi-language-python": "twin.plugins.language_host",
    "pulumi-resource-aws": "twin.plugins.aws",
    "pulumi-resource-eks": "twin.plugins.eks",
    "pulumi-resource-kubernetes": "twin.plugins.kubernetes",
}
"""The module by the name that the engine looks for."""
OFFICIAL = {"pulumi-resource-kubernetes": "twin.plugins.official"}
"""The module that replaces the twin's with `TWIN_OFFICIAL_KUBERNETES=1`."""


def write_launchers(directory: Path, python: Path) -> list[Path]:
    """Write one executable per plugin into ``directory``, replacing existing ones; return the paths, sorted by name.

    ``python`` is the interpreter of the project's virtual environment. ``-P`` keeps the engine's working directory, which
    may be another revision of this project, off the plugin's import path.
    """
    directory.mkdir(parents=True, exist_ok=True)
    modules = MODULES | (OFFICIAL if os.environ.get("TWIN_OFFICIAL_KUBERNETES") else {})
    return [_write(directory / name, python, module) for name, module in sorted(modules.items())]


def _write(path: Path, python: Path, module: str) -> Path:
    script = (
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(REPOSITORY))}${{PYTHONPATH:+:$PYTHONPATH}} "
        f'exec {shlex.quote(str(python))} -P -m {module} "$@"\n'
    )
    if not path.exists() or path.read_text() != script:
        write_whole(path, script.encode(), mode=0o755)
    return path
