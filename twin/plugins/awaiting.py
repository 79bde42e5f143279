"""Wait until an applied object is ready, like the official provider.

It waits for the pods of a Deployment, and for the conditions in any object's annotations. It does not wait for other kinds:
https://github.com/pulumi/pulumi-kubernetes/blob/v4.34.2/provider/pkg/await/deployment.go and
https://github.com/pulumi/pulumi-kubernetes/blob/v4.34.2/provider/pkg/metadata/overrides.go.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from twin.cluster.kube_api import KubeClient, Object, object_path
from twin.plugins import kube_rules
from twin.plugins.errors import Failure, NotReady, NotSupported

WITHOUT = {"TWIN_SKIPS_AWAIT": "true"}
"""The environment of an engine that must not wait for pods: its command waits itself, or has no machines for them."""

_SECONDS = 600.0
_POLL_SECONDS = 0.25
_REVISION = "deployment.kubernetes.io/revision"
_JSONPATH = re.compile(r"jsonpath=\{\s*(?P<path>(\.[A-Za-z][A-Za-z0-9]*|\[\d+\])+)\s*\}(=(?P<value>.+))?")
_CONDITION = re.compile(r"condition=(?P<type>[A-Za-z0-9./-]+)(=(?P<status>True|False|Unknown))?")
_STEP = re.compile(r"\.([A-Za-z][A-Za-z0-9]*)|\[(\d+)\]")

Missing = Callable[[Object], list[str]]
"""Returns the reasons, as sentences, why a live object is not ready."""


def ready(
    client: KubeClient, path: str, live: Object, timeout: float, cancelled: threading.Event, poll: float = _POLL_SECONDS
) -> Object:
    """Return the object at `path` when it is ready; `live` is the server's last response.

    `timeout`: the resource's own, in seconds; if 0, the annotation's, else 10 minutes. Raises NotReady with the last state
    of the object and the missing conditions.
    """
    missing = _missing(client, live)
    if missing is None or WITHOUT.items() <= os.environ.items():
        return live
    deadline = time.monotonic() + (timeout or _said_timeout(live))
    while lacks := missing(live):
        name = live["metadata"]["name"]
        if time.monotonic() > deadline:
            raise _not_ready(live, [f"'{name}' timed out waiting to be Ready", *lacks])
        if cancelled.wait(poll):
            raise _not_ready(live, [f'Resource operation was cancelled for "{name}"', *lacks])
        found = client.find(path)
        if found is None:
            raise _not_ready(live, [f"'{name}' was deleted by somebody else while it was waited for"])
        live = found
    return live


def _not_ready(live: Object, reasons: list[str]) -> NotReady:
    return NotReady(kube_rules.object_id(live), kube_rules.outputs(live), reasons)


def mistakes(inputs: Mapping[str, Any]) -> list[Failure]:
    """Return the wait conditions that are not supported, before any object is created."""
    expression = kube_rules.annotation(inputs, kube_rules.WAIT_FOR)
    if expression is None or _JSONPATH.fullmatch(expression) or _CONDITION.fullmatch(expression):
        return []
    return [
        Failure(
            f'metadata.annotations["{kube_rules.WAIT_FOR}"]',
            f"{expression!r} is none of jsonpath={{.field[0].field}}, the same with =VALUE, condition=TYPE and "
            "condition=TYPE=STATUS, which are all that the twin waits for (twin/plugins/awaiting.py)",
        )
    ]


def _missing(client: KubeClient, live: Object) -> Missing | None:
    if kube_rules.annotation(live, kube_rules.SKIP_AWAIT) == "true":
        return None
    expression = kube_rules.annotation(live, kube_rules.WAIT_FOR)
    if expression is not None:
        return lambda found: _unmet(expression, found)
    if (kube_rules.group_of(live["apiVersion"]), live["kind"]) == ("apps", "Deployment"):
        return lambda found: _deployment_lacks(client, found)
    return None


def _said_timeout(live: Object) -> float:
    said = kube_rules.annotation(live, kube_rules.TIMEOUT) or ""
    return float(said) if said.isdecimal() else _SECONDS


def _unmet(expression: str, live: Object) -> list[str]:
    if wanted := _CONDITION.fullmatch(expression):
        status = wanted["status"] or "True"
        has = any(found["type"] == wanted["type"] and found["status"] == status for found in _conditions(live))
        return [] if has else [f"{expression}: its conditions do not have it"]
    path = _JSONPATH.fullmatch(expression)
    if path is None:
        raise NotSupported(f"{kube_rules.WAIT_FOR}: {expression}: extend twin/plugins/awaiting.py")
    value: Any = live
    for key, index in _STEP.findall(path["path"]):
        try:
            value = value[key] if key else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return [f"{path['path']} selected nothing"]
    if path["value"] is None or str(value) == path["value"]:
        return []
    return [f"{path['path']} is {value}, and not {path['value']}"]


def _deployment_lacks(client: KubeClient, live: Object) -> list[str]:
    status, revision = live.get("status") or {}, kube_rules.annotation(live, _REVISION)
    if status.get("observedGeneration") != live["metadata"]["generation"] or revision is None:
        return ["its controller has not seen it yet"]
    newest = next((found for found in _owned(client, "replicasets", live) if _revision(found) == revision), None)
    available, progressing = _condition(live, "Available"), _condition(live, "Progressing")
    if available.get("status") != "True":
        lacks = "Minimum number of live Pods was not attained"
    elif revision != "1" and (progressing.get("status"), progressing.get("reason")) != ("True", "NewReplicaSetAvailable"):
        lacks = "Minimum number of Pods to consider the application live was not attained"
    elif newest is None or (newest.get("status") or {}).get("readyReplicas", 0) < newest["spec"].get("replicas", 1):
        lacks = "Attempted to roll forward to new ReplicaSet, but minimum number of Pods did not become live"
    else:
        return []
    told = [f"[{said['reason']}] {said['message']}" for said in (available, progressing) if said.get("status") == "False"]
    pods = _owned(client, "pods", newest) if newest is not None else ()
    return [*told, lacks, *(line for pod in pods for line in _pod_lacks(pod))]


def _owned(client: KubeClient, plural: str, owner: Object) -> Iterator[Object]:
    api_version = "v1" if plural == "pods" else "apps/v1"
    found = client.get(object_path(api_version, plural, owner["metadata"]["namespace"]))
    for item in found["items"]:
        if any(one["uid"] == owner["metadata"]["uid"] for one in item["metadata"].get("ownerReferences") or ()):
            yield item


def _pod_lacks(pod: Object) -> Iterator[str]:
    """Yield why a pod is not ready: the condition's own message, and why its containers wait or have exited."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    scheduled, is_ready = _condition(pod, "PodScheduled"), _condition(pod, "Ready")
    if scheduled.get("status") == "False":
        yield f"[Pod {name}]: {scheduled.get('message', '')}"
        return
    if is_ready.get("status") == "True":
        return
    status = pod.get("status") or {}
    said = [is_ready.get("message", "")]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (
            (container.get("lastState") or {}).get("terminated") or (container.get("state") or {}).get("terminated") or {}
        )
        if not container.get("ready") and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            said.append(f"[{waiting['reason']}] {waiting.get('message', '')}".rstrip())
        if not container.get("ready") and ended:
            said.append(f'container "{container["name"]}" terminated ({ended.get("reason")}: exit code {ended["exitCode"]})')
    if any(said):
        yield f"[Pod {name}]: {'; '.join(filter(None, said))}"


def _condition(live: Object, type: str) -> Mapping[str, Any]:
    return next((found for found in _conditions(live) if found["type"] == type), {})


def _conditions(live: Object) -> list[dict[str, Any]]:
    return (live.get("status") or {}).get("conditions") or []


def _revision(live: Object) -> str | None:
    return kube_rules.annotation(live, _REVISION)
