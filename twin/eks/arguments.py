"""Arguments of ``eks.Cluster``: those that the twin's component supports, and the inputs of its children."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]

_SUPPORTED = frozenset(
    {
        "accessEntries",
        "authenticationMode",
        "bootstrapSelfManagedAddons",
        "corednsAddonOptions",
        "createOidcProvider",
        "deletionProtection",
        "enabledClusterLogTypes",
        "encryptionConfigKeyArn",
        "endpointPrivateAccess",
        "endpointPublicAccess",
        "kubeProxyAddonOptions",
        "name",
        "providerCredentialOpts",
        "publicAccessCidrs",
        "serviceRole",
        "skipDefaultNodeGroup",
        "skipDefaultSecurityGroups",
        "subnetIds",
        "tags",
        "upgradePolicy",
        "useDefaultVpcCni",
        "version",
        "vpcId",
    }
)
_NO_ROUTE_TO_ISSUER = (
    "Cannot retrieve the certificate fingerprint at the issuer URL: the component connects to oidc.eks.<region> in every "
    "preview, and neither the twin nor a VPC with an eks endpoint has a route to it; create an aws.iam.OpenIdConnectProvider"
)
"""Starts with the official component's message (nodejs/eks/cluster/cert-thumprint.ts)."""
_ONLY_TRUE = ("skipDefaultNodeGroup", "skipDefaultSecurityGroups", "useDefaultVpcCni")
_REQUIRED = ("kubeProxyAddonOptions", "serviceRole", "subnetIds")
_API_MODES = ("API", "API_AND_CONFIG_MAP")


class ExpansionError(Exception):
    """Arguments that the official component rejects, or that the twin's component does not support."""


def refuse_unsupported(inputs: Mapping[str, Any]) -> None:
    """Raise ExpansionError with every argument that the official component rejects or the twin does not support."""
    extend = "extend twin/eks/arguments.py"
    problems = [f"{key}: the twin's eks.Cluster does not have it: {extend}" for key in sorted(inputs.keys() - _SUPPORTED)]
    problems += [
        f"{key}: the twin's eks.Cluster has only true: {extend}" for key in _ONLY_TRUE if inputs.get(key) is not True
    ]
    problems += [f"{key}: the twin's eks.Cluster needs it: {extend}" for key in _REQUIRED if not inputs.get(key)]
    if (inputs.get("corednsAddonOptions") or {"enabled": False}).get("enabled") is not False:
        problems.append(f"corednsAddonOptions: the twin's eks.Cluster has only enabled: false: {extend}")
    if inputs.get("providerCredentialOpts"):
        problems.append(f"providerCredentialOpts: the twin's eks.Cluster has only an empty one: {extend}")
    if inputs.get("endpointPublicAccess") is False and inputs.get("publicAccessCidrs"):
        problems.append("publicAccessCidrs: cannot be set when endpointPublicAccess is false")
    if inputs.get("accessEntries") and inputs.get("authenticationMode") not in _API_MODES:
        problems.append(f"accessEntries: need authenticationMode {' or '.join(_API_MODES)}")
    if inputs.get("createOidcProvider"):
        problems.append(f"createOidcProvider: {_NO_ROUTE_TO_ISSUER}")
    if problems:
        raise ExpansionError("; ".join(problems))


def cluster_arguments(name: str, inputs: Mapping[str, Any], role_arn: Any) -> Values:
    """Return the inputs of the aws:eks/cluster:Cluster of the component ``name``."""
    vpc = {
        "subnetIds": inputs["subnetIds"],
        "endpointPrivateAccess": inputs.get("endpointPrivateAccess"),
        "endpointPublicAccess": inputs.get("endpointPublicAccess"),
        "publicAccessCidrs": inputs.get("publicAccessCidrs"),
    }
    arguments: Values = {
        "name": inputs.get("name"),
        "roleArn": role_arn,
        "version": inputs.get("version"),
        "vpcConfig": without_none(vpc),
        "enabledClusterLogTypes": inputs.get("enabledClusterLogTypes"),
        "bootstrapSelfManagedAddons": inputs.get("bootstrapSelfManagedAddons", True),
        "deletionProtection": inputs.get("deletionProtection"),
        "upgradePolicy": inputs.get("upgradePolicy"),
        "tags": {"Name": f"{name}-eksCluster", **(inputs.get("tags") or {})},
    }
    if "authenticationMode" in inputs:
        arguments["accessConfig"] = {
            "authenticationMode": inputs["authenticationMode"],
            # Whoever creates the cluster is its administrator for ever: docs/facts/eks.md#creator-is-administrator.
            "bootstrapClusterCreatorAdminPermissions": True,
        }
    if "encryptionConfigKeyArn" in inputs:
        key = {"keyArn": inputs["encryptionConfigKeyArn"]}
        arguments["encryptionConfig"] = {"provider": key, "resources": ["secrets"]}
    return without_none(arguments)


def kube_proxy_arguments(inputs: Mapping[str, Any], cluster_name: Any) -> Values:
    """Return the inputs of the kube-proxy add-on."""
    options = inputs["kubeProxyAddonOptions"]
    values = options.get("configurationValues")
    return without_none(
        {
            "clusterName": cluster_name,
            "addonName": "kube-proxy",
            "addonVersion": options.get("version"),
            "preserve": True,
            "resolveConflictsOnCreate": options.get("resolveConflictsOnCreate", "OVERWRITE"),
            "resolveConflictsOnUpdate": options.get("resolveConflictsOnUpdate", "OVERWRITE"),
            "configurationValues": json.dumps(values, sort_keys=True) if values else None,
            "tags": inputs.get("tags"),
        }
    )


def without_none(values: Mapping[str, Any]) -> Values:
    """Return the mapping without absent options."""
    return {key: value for key, value in values.items() if value is not None}
