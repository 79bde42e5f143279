"""What kwok does to the twin's nodes and pods: the Stages in `kwok_stages.yaml`.

kwok plays the kubelet for every pod except those that run as processes (twin/pods.py). Every Pod stage leaves them out with
the same expression, which says what `runs_as_process` says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kwok_stages.yaml")
SERVER_MARK, WORKER_MARK = "/tritonserver", "/triton-worker"
"""What is in the image's path of containers that run as processes: Triton, and the worker of this repository."""
EXCLUSION = {
    "key": f'.spec.containers[].image | select(contains("{SERVER_MARK}") or contains("{WORKER_MARK}"))',
    "operator": "DoesNotExist",
}
"""The match expression of every Pod stage. Keys are jq queries on the object; no result means "does not exist"."""


def runs_as_process(pod: dict[str, Any]) -> bool:
    """Whether a container of the pod has Triton's image or the worker's, so that the twin runs it for real."""
    return any(is_process(container) for container in pod["spec"]["containers"])


def is_process(container: Mapping[str, Any]) -> bool:
    """Whether this container is one that runs as a process."""
    image = container.get("image", "")
    return SERVER_MARK in image or WORKER_MARK in image


def is_worker(container: Mapping[str, Any]) -> bool:
    """Whether it is the worker."""
    return WORKER_MARK in container.get("image", "")
