"""Containers about to start."""

from pathlib import Path
from typing import Any

from twin.pods.program import Launch

ADDRESS = "127.244.130.5"


def launch(*words: str, container: dict[str, Any] | None = None, **env: str) -> Launch:
    """Return a launch with this command and environment, for a pod at ADDRESS."""
    return Launch(container or {"name": "c"}, words, env, ADDRESS, 5353, 8888, Path("/cache"), "twin-1234-uid-")
