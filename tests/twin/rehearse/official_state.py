"""An exported state of the twin, in the form in which the official providers leave one in a real account.

Their forms: pulumi-terraform-bridge (pkg/tfbridge/schema.go, applyDefaults), pulumi-aws (provider/tags.go) and
pulumi-kubernetes (provider/pkg/provider/helm_release.go, Check).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENCRYPTED = {
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
    "ciphertext": "v1:of-a-key:that-nobody-here-has",
}
_OPTIONS_OF_A_RELEASE = {
    "allowNullValues": False,
    "cleanupOnFail": False,
    "createNamespace": False,
    "dependencyUpdate": False,
    "description": "",
    "devel": False,
    "keyring": "",
    "skipAwait": False,
}


def as_official(exported: Mapping[str, Any]) -> dict[str, Any]:
    """The same state: with defaults, tags and options as the official providers write them, and of other versions."""
    resources = [_resource(one) for one in exported["deployment"]["resources"]]
    return {**exported, "deployment": {**exported["deployment"], "resources": resources}}


def _resource(one: Mapping[str, Any]) -> dict[str, Any]:
    inputs, type_ = one.get("inputs", {}), one["type"]
    if type_.startswith("aws:"):
        inputs = {
            **{key: _with_defaults(value) for key, value in inputs.items() if not key.startswith("__")},
            "region": "us-west-2",
            "tagsAll": inputs.get("tags", {}),
            "__defaults": [*inputs.get("__defaults", ()), "region"],
        }
    elif type_ == "kubernetes:helm.sh/v3:Release":
        repository = {"caFile": "", "certFile": "", "password": "", **inputs.get("repositoryOpts", {})}
        inputs = {**_OPTIONS_OF_A_RELEASE, **inputs, "repositoryOpts": repository, "resourceNames": {}}
    elif type_ == "pulumi:providers:kubernetes":
        inputs = {**inputs, "kubeconfig": ENCRYPTED, "version": "4.20.0"}
    elif type_.startswith("pulumi:providers:") and not type_.endswith(":pulumi"):
        inputs = {**inputs, "version": inputs["version"].partition(".")[0] + ".0.0"}
    return {**one, "inputs": inputs}


def _with_defaults(value: Any) -> Any:
    """Every object lists its defaults, also where it has none."""
    if isinstance(value, dict) and "4dabf18193072939515e22adb298388d" not in value:
        return {key: _with_defaults(member) for key, member in value.items()} | {"__defaults": []}
    if isinstance(value, list):
        return [_with_defaults(member) for member in value]
    return value
