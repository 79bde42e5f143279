"""This repository's images in pods that run as processes: Python runs this checkout, and calls only the twin's AWS."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from twin.host.home import REPOSITORY
from twin.pods.program import LocalCommand

_LOOPBACK = re.compile(r"https?://(127(?:\.\d+){3}|localhost):\d+")


def calls_the_twin(url: str) -> bool:
    """Return whether an AWS endpoint URL is on this machine."""
    return _LOOPBACK.fullmatch(url) is not None


def python(arguments: Sequence[str], env: Mapping[str, str]) -> LocalCommand:
    """Return the command that runs Python with these arguments and variables, and the modules of this checkout."""
    own = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
    return LocalCommand((sys.executable, *arguments), {**own, **env})
