"""Convert an exported state of the twin to the form that the official providers leave in a real account.

The rules, each with its source:

* AWS, inputs: defaults of Terraform's schema, listed in `__defaults` (which every object has), and `region` and `tagsAll`.
  Sources: pulumi-terraform-bridge (pkg/tfbridge/schema.go, applyDefaults), pulumi-aws (provider/tags.go), and `Default` in
  terraform-provider-aws (internal/service/sqs/queue.go, kms/key.go, ec2/vpc_subnet.go).
* AWS, outputs: all of them, with `__meta`, which has the version of the schema (pkg/reservedkeys/keys.go).
* Kubernetes, inputs: as Kubernetes' own Go types write them. Outputs: the live object with `__inputs`, `__fieldManager` and
  `__initialApiVersion` (normalizeInputs and checkpointObject in provider/pkg/provider/provider.go of pulumi-kubernetes).
* Releases: exactly the structure's fields, including unset ones (Check in provider/pkg/provider/helm_release.go).
* The engine: secrets with a key of the account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ENCRYPTED = {
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
    "ciphertext": "v1:of-a-key:that-nobody-here-has",
}
SCHEMA_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "aws:sqs/queue:Queue": {
        "contentBasedDeduplication": False,
        "delaySeconds": 0,
        "fifoQueue": False,
        "maxMessageSize": 262144,
        "messageRetentionSeconds": 345600,
        "receiveWaitTimeSeconds": 0,
        "visibilityTimeoutSeconds": 30,
    },
    "aws:kms/key:Key": {
        "bypassPolicyLockoutSafetyCheck": False,
        "customerMasterKeySpec": "SYMMETRIC_DEFAULT",
        "enableKeyRotation": False,
        "isEnabled": True,
        "keyUsage": "ENCRYPT_DECRYPT",
    },
    "aws:ec2/subnet:Subnet": {
        "assignIpv6AddressOnCreation": False,
        "enableDns64": False,
        "enableResourceNameDnsARecordOnLaunch": False,
        "enableResourceNameDnsAaaaRecordOnLaunch": False,
        "ipv6Native": False,
        "mapPublicIpOnLaunch": False,
    },
}
_META = json.dumps({"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0": {"create": 600000000000}, "schema_version": "1"})
_OPTIONS_OF_A_RELEASE: Mapping[str, Any] = {
    **dict.fromkeys(
        [
            *(
                "allowNullValues",
                "atomic",
                "cleanupOnFail",
                "createNamespace",
                "dependencyUpdate",
                "devel",
                "lint",
                "replace",
            ),
            *("disableCRDHooks", "disableOpenapiValidation", "disableWebhooks", "forceUpdate", "recreatePods", "verify"),
            *("renderSubchartNotes", "resetValues", "reuseValues", "skipAwait", "skipCrds", "waitForJobs"),
        ],
        False,
    ),
    **dict.fromkeys(["chart", "description", "keyring", "name", "namespace", "postrender", "version"], ""),
    **dict.fromkeys(["maxHistory", "repositoryOpts", "status", "values"]),
    "timeout": 300,
}
_OF_A_REPOSITORY = dict.fromkeys(["caFile", "certFile", "keyFile", "password", "repo", "username"], "")


def as_official(exported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state as the official providers and an account's key would write it."""
    resources = [_resource(one) for one in exported["deployment"]["resources"]]
    key = {"type": "cloud", "state": {"url": "awskms://alias/of-the-account", "encryptedkey": "AAAA"}}
    deployment = {**exported["deployment"], "resources": resources, "secrets_providers": key, "metadata": {}}
    return {**exported, "version": 3, "deployment": deployment}


def _resource(one: Mapping[str, Any]) -> dict[str, Any]:
    inputs, outputs, type_ = one.get("inputs", {}), one.get("outputs", {}), one["type"]
    if type_.startswith("aws:"):
        inputs, outputs = _of_aws(type_, inputs), {**outputs, "__meta": _META}
    elif type_ == "kubernetes:helm.sh/v3:Release":
        inputs = _of_a_release(inputs)
    elif type_.startswith("kubernetes:") and "apiVersion" in inputs:
        inputs = _by_go_types(inputs) if inputs["apiVersion"] in ("apps/v1", "v1") else inputs
        marks = {"__fieldManager": f"pulumi-kubernetes-{one['urn'][-4:]}", "__initialApiVersion": inputs["apiVersion"]}
        outputs = {**outputs, "__inputs": inputs, **marks}
    elif type_ == "pulumi:providers:kubernetes":
        inputs = {**inputs, "kubeconfig": ENCRYPTED, "version": "4.20.0"}
        outputs = {**outputs, "kubeconfig": ENCRYPTED}
    elif type_.startswith("pulumi:providers:") and not type_.endswith(":pulumi"):
        inputs = {**inputs, "version": inputs["version"].partition(".")[0] + ".0.0"}
    return {**one, "inputs": inputs, **({"outputs": outputs} if "outputs" in one else {})}


def _of_aws(type_: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {key: value for key, value in SCHEMA_DEFAULTS.get(type_, {}).items() if key not in inputs}
    return {
        **{key: _with_defaults(value) for key, value in inputs.items() if not key.startswith("__")},
        **defaults,
        "region": "us-west-2",
        "tagsAll": inputs.get("tags", {}),
        "__defaults": sorted([*inputs.get("__defaults", ()), *defaults, "region"]),
    }


def _of_a_release(inputs: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in inputs.items() if key in _OPTIONS_OF_A_RELEASE}
    repository = inputs.get("repositoryOpts")
    return {
        **_OPTIONS_OF_A_RELEASE,
        **known,
        "repositoryOpts": {**_OF_A_REPOSITORY, **repository} if repository is not None else None,
    }


def _by_go_types(value: Any) -> Any:
    """Return an object in that form: in this program, only one quantity and a false non-pointer field differ."""
    if isinstance(value, dict):
        return {
            key: _by_go_types(member)
            for key, member in value.items()
            if (key, member) != ("publishNotReadyAddresses", False)
        }
    if isinstance(value, list):
        return [_by_go_types(member) for member in value]
    return "1Gi" if value == "1024Mi" else value


def _with_defaults(value: Any) -> Any:
    """Every object lists its defaults, even if it has none."""
    if isinstance(value, dict) and "4dabf18193072939515e22adb298388d" not in value:
        return {key: _with_defaults(member) for key, member in value.items()} | {"__defaults": []}
    if isinstance(value, list):
        return [_with_defaults(member) for member in value]
    return value
