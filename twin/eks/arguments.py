"""The component's arguments: which of them the stand-in has, and what its children get of them."""

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
        "clusterTags",
        "corednsAddonOptions",
        "createOidcProvider",
        "deletionProtection",
        "enabledClusterLogTypes",
        "encryptionConfigKeyArn",
        "endpointPrivateAccess",
        "endpointPublicAccess",
        "kubeProxyAddonOptions",
        "kubernetesServiceIpAddressRange",
        "name",
        "privateSubnetIds",
        "publicAccessCidrs",
        "publicSubnetIds",
        "serviceRole",
        "skipDefaultNodeGroup",
        "skipDefaultSecurityGroups",
        "subnetIds",
        "tags",
        "upgradePolicy",
        "useDefaultVpcCni",
        "version",
        "vpcCniOptions",
        "vpcId",
    }
)
_NO_ROUTE_TO_ISSUER = (
    "Cannot retrieve the certificate fingerprint at the issuer URL: the component connects to oidc.eks.<region> in every "
    "preview, and neither the twin nor a VPC with an eks endpoint has a route to it; create an aws.iam.OpenIdConnectProvider"
)
"""Starts with the official component's message (nodejs/eks/cluster/cert-thumprint.ts)."""
_API_MODES = ("API", "API_AND_CONFIG_MAP")
# Component options of the vpc-cni add-on -> the add-on's environment variables.
_CNI_ENVIRONMENT = {
    "enablePrefixDelegation": "ENABLE_PREFIX_DELEGATION",
    "enablePodEni": "ENABLE_POD_ENI",
    "logLevel": "AWS_VPC_K8S_CNI_LOGLEVEL",
    "warmEniTarget": "WARM_ENI_TARGET",
    "warmIpTarget": "WARM_IP_TARGET",
    "warmPrefixTarget": "WARM_PREFIX_TARGET",
}
_CNI_OPTIONS = frozenset(
    {
        "addonVersion",
        "configurationValues",
        "enableNetworkPolicy",
        "resolveConflictsOnCreate",
        "resolveConflictsOnUpdate",
        "serviceAccountRoleArn",
        *_CNI_ENVIRONMENT,
    }
)


class ExpansionError(Exception):
    """Arguments that the component refuses, or that this stand-in does not have."""


def refuse_unsupported(inputs: Mapping[str, Any]) -> None:
    """Raise ExpansionError with everything that the official component or this stand-in would not do."""
    problems = [
        f"{key}: the twin's eks.Cluster does not have it: extend twin/eks/arguments.py"
        for key in sorted(inputs.keys() - _SUPPORTED)
    ]
    for key in ("skipDefaultNodeGroup", "skipDefaultSecurityGroups"):
        if inputs.get(key) is not True:
            problems.append(f"{key}: the twin's eks.Cluster has only true: extend twin/eks/arguments.py")
    if inputs.get("endpointPublicAccess") is False and inputs.get("publicAccessCidrs"):
        problems.append("publicAccessCidrs: cannot be set when endpointPublicAccess is false")
    if inputs.get("accessEntries") and inputs.get("authenticationMode") not in _API_MODES:
        problems.append(f"accessEntries: need authenticationMode {' or '.join(_API_MODES)}")
    if "subnetIds" in inputs and ("privateSubnetIds" in inputs or "publicSubnetIds" in inputs):
        problems.append("subnetIds: not together with privateSubnetIds or publicSubnetIds")
    if inputs.get("createOidcProvider"):
        problems.append(f"createOidcProvider: {_NO_ROUTE_TO_ISSUER}")
    unknown = sorted((inputs.get("vpcCniOptions") or {}).keys() - _CNI_OPTIONS)
    problems += [f"vpcCniOptions.{key}: extend twin/eks/arguments.py" for key in unknown]
    if problems:
        raise ExpansionError("; ".join(problems))


def cluster_arguments(name: str, inputs: Mapping[str, Any], role_arn: Any) -> Values:
    """Return the inputs of the aws:eks/cluster:Cluster of the component ``name``."""
    subnets = inputs.get("subnetIds") or [*inputs.get("publicSubnetIds", []), *inputs.get("privateSubnetIds", [])]
    vpc = {
        "subnetIds": subnets,
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
        "bootstrapSelfManagedAddons": inputs.get("bootstrapSelfManagedAddons"),
        "deletionProtection": inputs.get("deletionProtection"),
        "upgradePolicy": inputs.get("upgradePolicy"),
        "tags": {"Name": f"{name}-eksCluster", **(inputs.get("tags") or {}), **(inputs.get("clusterTags") or {})},
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
    if "kubernetesServiceIpAddressRange" in inputs:
        arguments["kubernetesNetworkConfig"] = {"serviceIpv4Cidr": inputs["kubernetesServiceIpAddressRange"]}
    return without_none(arguments)


def add_on_arguments(add_on: str, inputs: Mapping[str, Any], cluster_name: Any, options: Mapping[str, Any]) -> Values:
    """Return the inputs of an aws:eks/addon:Addon, from the component's options for it."""
    values = options.get("configurationValues")
    return without_none(
        {
            "clusterName": cluster_name,
            "addonName": add_on,
            "addonVersion": options.get("version", options.get("addonVersion")),
            "preserve": True,
            "resolveConflictsOnCreate": options.get("resolveConflictsOnCreate", "OVERWRITE"),
            "resolveConflictsOnUpdate": options.get("resolveConflictsOnUpdate", "OVERWRITE"),
            "serviceAccountRoleArn": options.get("serviceAccountRoleArn"),
            "configurationValues": json.dumps(values, sort_keys=True) if values else None,
            **tags_of(inputs),
        }
    )


def vpc_cni_arguments(inputs: Mapping[str, Any], cluster_name: Any) -> Values:
    """Return the inputs of the vpc-cni add-on; its typed options become environment variables of the plugin."""
    options = dict(inputs.get("vpcCniOptions") or {})
    environment = {
        variable: _environment_value(options[key]) for key, variable in _CNI_ENVIRONMENT.items() if key in options
    }
    values = dict(options.get("configurationValues") or {})
    if environment:
        values["env"] = {**environment, **values.get("env", {})}
    if "enableNetworkPolicy" in options:
        values["enableNetworkPolicy"] = _environment_value(options["enableNetworkPolicy"])
    return add_on_arguments("vpc-cni", inputs, cluster_name, {**options, "configurationValues": values})


def _environment_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tags_of(inputs: Mapping[str, Any]) -> Values:
    """Return the component's tags as an input of a child, if it has any."""
    return {"tags": dict(inputs["tags"])} if inputs.get("tags") else {}


def without_none(values: Mapping[str, Any]) -> Values:
    """Return the mapping without absent options."""
    return {key: value for key, value in values.items() if value is not None}
