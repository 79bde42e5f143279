"""What kwok does to the twin's nodes and pods: the Stages in `kwok_stages.yaml`.

kwok plays the kubelet for every pod except those that run as processes (twin/pods.py). Every Pod stage leaves them out with
the same expression, which says what `runs_as_process` says.
"""

from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kwok_stages.yaml")
IMAGE_MARK = "/tritonserver"
EXCLUSION = {
    "key": f'.spec.containers[].image | select(contains("{IMAGE_MARK}"))',
    "operator": "DoesNotExist",
}
"""The match expression of every Pod stage. Keys are jq queries on the object; no result means "does not exist"."""


def runs_as_process(pod: dict[str, Any]) -> bool:
    """Whether a container of the pod has Triton's image, so that the twin runs it for real."""
    return any(IMAGE_MARK in container.get("image", "") for container in pod["spec"]["containers"])
