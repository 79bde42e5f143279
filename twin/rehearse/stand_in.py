"""Adapt objects of a real stack to a twin: sample models for the models of its bucket, and keys for its roles."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spec.names import TRITON_CONTAINER
from twin.charts.triton import TRITON
from twin.cluster.node_objects import Machine, lone_node
from twin.rehearse.part import ACCOUNT, Manifest, type_of
from twin.rehearse.serving import DEPLOYMENT, fetches

MARK = "twin.triton-eks/template"
"""Annotates pods with their original template. The sample models would otherwise make two templates equal."""
_OF_AWS = "eks.amazonaws.com/"
_REPLACED = ("--model-repository", "--model-control-mode", "--load-model", "--trace-config")
_PROBED = re.compile(r"/v2/models/\{[^}]*\}/ready")
_MACHINE = Machine("twin", vcpus=96, memory_mib=768 * 1024)
_ZONES = 3


@dataclass(frozen=True)
class Models:
    """A release on this twin. `repository`: its URL for Triton; `paths`: the path of each model in a probe."""

    repository: str
    paths: tuple[str, ...]

    @property
    def release(self) -> str:
        """Return the release's id."""
        return self.repository.rpartition("/")[2]


def fitted(key: str, manifest: Manifest, models: Models, pods: int | None, mark: str) -> dict[str, Any]:
    """Return an object of a real stack in the form that the twin can hold.

    `pods`: replicas of a Deployment, None for its own number. `mark`: must differ if the template differs.
    """
    if type_of(key) == ACCOUNT:
        return _without_role(manifest)
    if type_of(key) != DEPLOYMENT:
        return dict(manifest)
    spec = manifest["spec"]
    template = spec["template"]
    listed = template["spec"]["containers"]
    containers = [_container(one, models) if one["name"] == TRITON_CONTAINER else one for one in listed]
    # The server itself reads the sample release from the twin's bucket.
    initial = [one for one in template["spec"].get("initContainers") or () if not fetches(one)]
    metadata = template.get("metadata") or {}
    made = {
        **template,
        "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), MARK: mark}},
        "spec": {**template["spec"], "initContainers": initial, "containers": containers},
    }
    return {**manifest, "spec": {**spec, "template": made, **({"replicas": pods} if pods is not None else {})}}


def nodes(deployment: Manifest, pods: int) -> Iterator[dict[str, Any]]:
    """Yield one node for each pod of a Deployment, or two if a rollout begins with an additional pod."""
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    pod = spec["template"]["spec"]
    surge = ((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxSurge", "25%")
    limits = [(container.get("resources") or {}).get("limits") or {} for container in pod["containers"]]
    gpus = {key: int(count) for one in limits for key, count in one.items() if key.startswith("nvidia.com/")}
    selector = pod.get("nodeSelector") or {}
    kind = hashlib.sha256(json.dumps([selector, gpus], sort_keys=True).encode()).hexdigest()[:6]
    for number in range(pods if surge in (0, "0", "0%") else 2 * pods):
        zone = f"us-west-2{'abc'[number % _ZONES]}"
        yield lone_node(f"{name}-{kind}-{number}", _MACHINE, zone, selector, gpus)


def _without_role(manifest: Manifest) -> dict[str, Any]:
    """Return a service account without a role, because the twin's account has no such role."""
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith(_OF_AWS)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _container(container: Mapping[str, Any], models: Models) -> dict[str, Any]:
    kept = [word for word in container.get("args") or () if word.partition("=")[0] not in _REPLACED]
    own = [f"--model-repository={models.repository}", "--model-control-mode=none"]
    keys = [{"name": name, "value": "test"} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    made = {**container, "args": [*own, *kept], "env": [*(container.get("env") or ()), *keys]}
    if not TRITON.runs(container):
        made["image"] = f"twin/{TRITON.image}"
    probe = container.get("readinessProbe") or {}
    if "exec" in probe:
        wanted = f"/v2/models/{{{','.join(models.paths)}}}/ready"
        command = [_PROBED.sub(wanted, word) for word in probe["exec"]["command"]]
        made["readinessProbe"] = {**probe, "exec": {**probe["exec"], "command": command}}
    return made
