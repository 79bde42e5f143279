"""Put the engine and the twin's plugins where the engine itself looks for them.

On PATH, it would find the plugins too, but warn about each of them several times a run (docs/facts/pulumi.md#plugins). As in
an ordinary installation, the language host is next to `pulumi`, and the providers are in PULUMI_HOME under the versions of
the Python packages.
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
"""Provider name, and the Python package whose version the engine requests."""


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
    """Return this twin's PULUMI_HOME."""
    return home.path / "pulumi"


def _leave_out_logs(pulumi_home: Path) -> None:
    """Create a file at the path of the engine's log folder, so that the engine runs without logs.

    Its logs have everything that it does, megabytes for each command, and no setting disables them
    (docs/facts/pulumi.md#logs-of-every-command). `--verbose` writes elsewhere.
    """
    (pulumi_home / "logs").touch()


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.resolve() != target.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _hard_link(program: Path, link: Path) -> None:
    """Create a hard link, because the engine looks for language hosts next to the target of a symbolic link."""
    program = program.resolve()
    if link.exists() and link.stat().st_size == program.stat().st_size and link.stat().st_mtime == program.stat().st_mtime:
        return
    link.unlink(missing_ok=True)
    try:
        os.link(program, link)
    except OSError:  # another file system
        shutil.copy2(program, link)
