"""The worker of this repository (`python -m worker`) as a local process: what its container's command becomes here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from twin.host.home import REPOSITORY
from twin.pods.pod_spec import SpecError

_COMMAND = ["python", "-m", "worker"]
_LOOPBACK = re.compile(r"https?://(127(?:\.\d+){3}|localhost):\d+")
_CLUSTER_NAME = "dns:///"
TRITON_URL, AWS_URL = "WORKER_TRITON_URL", "AWS_ENDPOINT_URL"


def worker_command(words: Sequence[str], env: Mapping[str, str], dns_port: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """Argv and complete environment. Names of the cluster are asked of the twin's own DNS (`cluster_dns`).

    Raises SpecError for another command, and for a worker that would call the real AWS.
    """
    if list(words) != _COMMAND:
        raise SpecError("RunContainerError", f"the worker is started by {' '.join(_COMMAND)!r}, not by {' '.join(words)!r}")
    if not _LOOPBACK.fullmatch(env.get(AWS_URL, "")):
        raise SpecError(
            "RunContainerError",
            f"{AWS_URL} is {env.get(AWS_URL, 'not set')}: the worker would call the real AWS, which the twin never does "
            "(setting worker.awsEndpoint)",
        )
    url = env.get(TRITON_URL, "")
    if url.startswith(_CLUSTER_NAME):
        url = f"dns://127.0.0.1:{dns_port}/{url.removeprefix(_CLUSTER_NAME)}"
    own = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
    return (sys.executable, *_COMMAND[1:]), {**own, **env, TRITON_URL: url}
