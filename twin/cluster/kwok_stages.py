"""What kwok does to the twin's nodes and pods: the Stages in `kwok_stages.yaml`.

kwok plays the kubelet for every pod except those that run as processes (twin/pods/runner.py). Every Pod stage leaves them
out with the same expression, which says what `runs_as_process` says.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kwok_stages.yaml")
_SERVER, _WORKER, _PROMETHEUS = "tritonserver", "triton-worker", "prometheus/prometheus"
_RELOADER = "prometheus-config-reloader"
"""What is in the image's path of containers that run as processes: Triton, the worker of this repository, Prometheus, and
what hands Prometheus its configuration. The last is in Alertmanager's pods too, so it alone makes no pod one that runs."""
_IMAGES = f"/({_SERVER}|{_WORKER}|{_PROMETHEUS})"
EXCLUSION = {"key": f'.spec.containers[].image | select(test("{_IMAGES}"))', "operator": "DoesNotExist"}
"""The match expression of every Pod stage. Keys are jq queries on the object; no result means "does not exist"."""


def runs_as_process(pod: Mapping[str, Any]) -> bool:
    """Whether a container of the pod has the image of Triton, its worker or Prometheus: the twin runs it for real."""
    return any(re.search(_IMAGES, container.get("image", "")) for container in pod["spec"]["containers"])


def is_process(container: Mapping[str, Any]) -> bool:
    """Whether this container, of a pod that runs as processes, is one of them."""
    return re.search(_IMAGES, container.get("image", "")) is not None or is_reloader(container)


def is_worker(container: Mapping[str, Any]) -> bool:
    """Whether it is the worker."""
    return _has(container, _WORKER)


def is_prometheus(container: Mapping[str, Any]) -> bool:
    """Whether it is Prometheus."""
    return _has(container, _PROMETHEUS)


def is_reloader(container: Mapping[str, Any]) -> bool:
    """Whether it is what hands Prometheus its configuration."""
    return _has(container, _RELOADER)


def _has(container: Mapping[str, Any], name: str) -> bool:
    return f"/{name}" in container.get("image", "")
