"""Read a pod's specification like the kubelet: variables, references, expansion of `$(NAME)`."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from twin.cluster import quantity
from twin.cluster.kube_api import KubeApi, Object


class SpecError(ValueError):
    """A part of a pod cannot be executed. `reason` is the Event's reason, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Sources:
    """The ConfigMaps and Secrets that a pod refers to, by name, with decoded values. Missing ones are left out.

    `node_folders`: by claim, the path on the node of a volume that is a folder of it (hostPath).
    """

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    node_folders: Mapping[str, str] = field(default_factory=dict)


async def load_sources(api: KubeApi, pod: Object) -> Sources:
    """Fetch the sources of the pod's environment and volumes."""
    namespace = pod["metadata"]["namespace"]
    names: dict[str, set[str]] = {"configmaps": set(), "secrets": set()}
    _collect(pod["spec"], names)
    config_maps, secrets = {}, {}
    for name in sorted(names["configmaps"]):
        found = await api.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        if found is not None:
            text = {k: v.encode() for k, v in (found.get("data") or {}).items()}
            binary = {k: base64.b64decode(v) for k, v in (found.get("binaryData") or {}).items()}
            config_maps[name] = text | binary
    for name in sorted(names["secrets"]):
        found = await api.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if found is not None:
            secrets[name] = {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
    return Sources(config_maps, secrets, await _node_folders(api, pod))


async def _node_folders(api: KubeApi, pod: Object) -> dict[str, str]:
    folders: dict[str, str] = {}
    for volume in pod["spec"].get("volumes") or []:
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name is None:
            continue
        claim = await api.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/persistentvolumeclaims/{name}")
        bound = (claim or {}).get("spec", {}).get("volumeName")
        found = await api.find(f"/api/v1/persistentvolumes/{bound}") if bound else None
        if found is not None and "hostPath" in found["spec"]:
            folders[name] = found["spec"]["hostPath"]["path"]
    return folders


def environment(container: Mapping[str, Any], pod: Object, address: str, sources: Sources) -> dict[str, str]:
    """Return the container's variables, expanded. `address`: where the process listens, used as `status.podIP`.

    Raises SpecError for a reference to something that does not exist and is not optional.
    """
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        kind, known = ("configMapRef", sources.config_maps) if "configMapRef" in source else ("secretRef", sources.secrets)
        reference = source[kind]
        data = known.get(reference["name"])
        if data is None and not reference.get("optional"):
            raise _missing(kind.removesuffix("Ref"), reference["name"])
        for key, content in (data or {}).items():
            variables[source.get("prefix", "") + key] = content.decode()
    for entry in container.get("env") or []:
        if "valueFrom" in entry:
            value = _value_from(entry["valueFrom"], container, pod, address, sources)
            if value is not None:
                variables[entry["name"]] = value
        else:
            variables[entry["name"]] = expand(entry.get("value") or "", variables)
    return variables


def arguments(container: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Return the container's command and arguments, expanded."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [expand(word, variables) for word in words]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; `$$` is a literal `$`, and an unknown name stays unchanged."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", replacement, text)


def field_value(pod: Object, path: str, address: str) -> str:
    """Return the value of `fieldRef.fieldPath`. Raises SpecError for a path that Kubernetes does not offer."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']*)'\]", path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{k}="{v}"' for k, v in sorted(entries.items()))
    known = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP", "127.0.0.1"),
        "status.hostIPs": status.get("hostIP", "127.0.0.1"),
        "status.podIP": address,
        "status.podIPs": address,
    }
    if path not in known:
        raise SpecError("CreateContainerConfigError", f"fieldRef {path!r} is not a field that a container can be given")
    return str(known[path] or "")


def ports(container: Mapping[str, Any]) -> list[int]:
    """Return the ports that the container declares."""
    return [int(port["containerPort"]) for port in container.get("ports") or []]


def port_number(port: int | str, containers: Sequence[Mapping[str, Any]]) -> int:
    """Return a probe's port, by number or by a container port's name. Raises SpecError for an unknown name."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    named = {p.get("name"): p["containerPort"] for c in containers for p in c.get("ports") or []}
    if port not in named:
        raise SpecError("InvalidProbe", f"no container port is named {port!r}; there are {', '.join(map(str, named))}")
    return int(named[port])


def _value_from(
    source: Mapping[str, Any], container: Mapping[str, Any], pod: Object, address: str, sources: Sources
) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"], address)
    if "resourceFieldRef" in source:
        return resource_value(container, source["resourceFieldRef"])
    kind, known = ("configMap", sources.config_maps) if "configMapKeyRef" in source else ("secret", sources.secrets)
    reference = source[f"{kind}KeyRef"]
    value = known.get(reference["name"], {}).get(reference["key"])
    if value is None:
        if reference.get("optional"):
            return None
        if reference["name"] not in known:
            raise _missing(kind, reference["name"])
        raise SpecError("CreateContainerConfigError", f"{kind} {reference['name']!r} has no key {reference['key']!r}")
    return value.decode()


def resource_value(container: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """Return the value of `resourceFieldRef`: the request or limit in whole divisors, rounded up; 0 for none."""
    kind, _, resource = reference["resource"].partition(".")
    amount = ((container.get("resources") or {}).get(kind) or {}).get(resource, "0")
    divisor = quantity.parse(str(reference.get("divisor") or "1")) or Decimal(1)
    return str(math.ceil(quantity.parse(str(amount)) / divisor))


def _missing(kind: str, name: str) -> SpecError:
    return SpecError("CreateContainerConfigError", f"{kind} {name!r} not found")


def _collect(node: Any, names: dict[str, set[str]]) -> None:
    """Collect all references to ConfigMaps and Secrets in a pod's specification."""
    if isinstance(node, list):
        for item in node:
            _collect(item, names)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in ("configMapRef", "configMapKeyRef", "configMap") and isinstance(value, dict) and "name" in value:
            names["configmaps"].add(value["name"])
        elif key in ("secretRef", "secretKeyRef", "secret") and isinstance(value, dict):
            name = value.get("name") or value.get("secretName")
            if name:
                names["secrets"].add(name)
        _collect(value, names)
