"""Puts the engine and the twin's plugins where the engine itself looks for them.

On PATH it would find the plugins too, but warns about each of them several times a run (docs/facts/pulumi.md#plugins). A
language host that lies beside `pulumi`, and providers in PULUMI_HOME under the versions that the Python packages ask for,
are what an ordinary installation has.
"""

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

from twin.host.home import TwinHome
from twin.plugins import launchers

LANGUAGE_HOST = "pulumi-language-python"
PROVIDERS = {"aws": "pulumi-aws", "eks": "pulumi-eks", "kubernetes": "pulumi-kubernetes"}
"""Provider name, and the Python package whose version the engine will ask for."""


def lay_out(home: TwinHome, pulumi: Path) -> Path:
    """Prepare this twin's engine and return the path of its `pulumi`."""
    folder = home.path / "engine"
    scripts = {path.name: path for path in launchers.write_launchers(folder / "plugins", Path(sys.executable))}
    _link(scripts[LANGUAGE_HOST], folder / LANGUAGE_HOST)
    for name, package in PROVIDERS.items():
        executable = f"pulumi-resource-{name}"
        version = importlib.metadata.version(package)
        _link(scripts[executable], pulumi_home(home) / "plugins" / f"resource-{name}-v{version}" / executable)
    _hard_link(pulumi, folder / "pulumi")
    _leave_out_logs(pulumi_home(home))
    return folder / "pulumi"


def pulumi_home(home: TwinHome) -> Path:
    """Return PULUMI_HOME of this twin."""
    return home.path / "pulumi"


def _leave_out_logs(pulumi_home: Path) -> None:
    """Put a file where the engine would make the folder of its logs; without it, it goes on without them.

    They have everything that it does, megabytes for each command, whether or not anybody looks; no setting leaves them out
    (docs/facts/pulumi.md#logs-of-every-command). `--verbose` writes elsewhere.
    """
    (pulumi_home / "logs").touch()


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.resolve() != target.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _hard_link(program: Path, link: Path) -> None:
    """Make a hard link: the engine looks for language hosts beside the file that a symbolic one leads to."""
    program = program.resolve()
    if link.exists() and link.stat().st_size == program.stat().st_size and link.stat().st_mtime == program.stat().st_mtime:
        return
    link.unlink(missing_ok=True)
    try:
        os.link(program, link)
    except OSError:  # another file system
        shutil.copy2(program, link)
