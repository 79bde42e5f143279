"""The restricted Pod Security Standard as a function (kubernetes.io, Pod Security Standards)."""

from typing import Any

RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def violations(spec: dict[str, Any]) -> list[str]:
    """Return the violations of the `restricted` level in a pod spec, one line each."""
    found = [f"{field}: true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        found += [f"volume {volume['name']}: {kind}" for kind in sorted(kinds - RESTRICTED_VOLUMES)]
    of_pod = spec.get("securityContext", {})
    if of_pod.get("sysctls"):
        found.append("sysctls")
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        found += [f"{container['name']}: {what}" for what in _of_container(container, of_pod)]
    return found


def _of_container(container: dict[str, Any], of_pod: dict[str, Any]) -> list[str]:
    own = container.get("securityContext", {})
    effective = {**of_pod, **own}
    capabilities = own.get("capabilities", {})
    rules = {
        "privileged": own.get("privileged", False) is False,
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities.drop": "ALL" in capabilities.get("drop", []),
        "capabilities.add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "runAsNonRoot": effective.get("runAsNonRoot") is True,
        "runAsUser": effective.get("runAsUser", 1) != 0,
        "seccompProfile": effective.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "procMount": own.get("procMount", "Default") == "Default",
        "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
    }
    return [rule for rule, holds in rules.items() if not holds]
