"""Expand ``eks.Cluster`` as pulumi-eks 4 does.

A re-implementation: the official provider is a Node bundle that is not published as a library. It covers the control
plane as this program uses it (API authentication, no default node group, no default security groups, see
docs/facts/eks.md#the-component); the component's other options are refused (twin/eks/arguments.py), never ignored.

Differences from the official component, none of which shows in the program's own resources: the OIDC provider's
thumbprint is a constant (the official one is read off the certificates of the region's issuer), no wait for the API
server's health, and ``bootstrapClusterCreatorAdminPermissions`` without ``ignoreChanges`` (its value never changes).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pulumi.runtime.rpc import UNKNOWN, _special_resource_sig, _special_sig_key

from twin.eks.arguments import (
    ExpansionError,
    add_on_arguments,
    cluster_arguments,
    refuse_unsupported,
    tags_of,
    vpc_cni_arguments,
    without_none,
)

__all__ = ["ExpansionError", "Register", "Registered", "expand_cluster", "reference"]

Values = dict[str, Any]

_CLUSTER_POLICY = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
_OIDC_AUDIENCE = "sts.amazonaws.com"
_ISSUER_THUMBPRINT = "9e99a48a9960b14926bb7f3b02e22da2b0ab7280"
"""SHA-1 of the root that has long signed EKS's issuers; IAM does not look at it where the root is one that it trusts."""


class Registered(Protocol):
    """A registered child: its URN, its provider id, its outputs with UNKNOWN where a preview does not know."""

    @property
    def urn(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def outputs(self) -> Values: ...


class Register(Protocol):
    """Registers a custom resource with the engine and waits for it. ``parent`` None is the component itself."""

    def __call__(
        self,
        type: str,
        name: str,
        props: Mapping[str, Any],
        *,
        parent: str | None = None,
        depends_on: tuple[str, ...] = (),
        protect: bool | None = None,
    ) -> Registered: ...


def expand_cluster(
    name: str,
    inputs: Mapping[str, Any],
    register: Register,
    *,
    kubeconfig: Callable[[Mapping[str, Any]], Any],
    resolve: Callable[[str], Mapping[str, Any]],
) -> Values:
    """Register the children of the component ``name`` and return its outputs.

    ``inputs`` are plain (no secret marks); a value may be UNKNOWN, a resource argument is a reference dictionary.
    ``kubeconfig`` maps the cluster's outputs to its kubeconfig; ``resolve`` maps a URN to the outputs of a registered
    resource (the engine's ``pulumi:pulumi:getResource``).

    Raises ExpansionError before anything is registered.
    """
    refuse_unsupported(inputs)
    role = _service_role(name, inputs, register)
    cluster = register(
        "aws:eks/cluster:Cluster",
        f"{name}-eksCluster",
        cluster_arguments(name, inputs, _role_arn(role, resolve)),
        depends_on=_urns_after_role(role),
    )
    _access_entries(name, inputs, register, cluster)
    add_ons = _add_ons(name, inputs, register, cluster)
    oidc = _oidc_provider(name, inputs, register, cluster)
    document = kubeconfig(cluster.outputs)
    provider = register(
        "pulumi:providers:kubernetes",
        f"{name}-eks-k8s",
        {"kubeconfig": json.dumps(document, sort_keys=True)},
        depends_on=tuple(child.urn for child in (cluster, *add_ons)),
    )
    return _outputs(inputs, role, cluster, oidc, provider, document)


class _CreatedRole:
    """The role that the component makes when it is given none."""

    def __init__(self, role: Registered, attachment: Registered) -> None:
        self.role = role
        self.attachment = attachment


_Role = _CreatedRole | Mapping[str, Any]


def _service_role(name: str, inputs: Mapping[str, Any], register: Register) -> _Role:
    given = inputs.get("serviceRole")
    if given is not None:
        return dict(given)
    statement = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = register(
        "aws:iam/role:Role",
        f"{name}-eksRole-role",
        {
            "description": "Allows EKS to manage clusters on your behalf.",
            "assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
            **tags_of(inputs),
        },
    )
    attachment = register(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        f"{name}-eksRole-AmazonEKSClusterPolicy",
        {"role": role.outputs.get("name", UNKNOWN), "policyArn": _CLUSTER_POLICY},
    )
    return _CreatedRole(role, attachment)


def _role_arn(role: _Role, resolve: Callable[[str], Mapping[str, Any]]) -> Any:
    if isinstance(role, _CreatedRole):
        return role.role.outputs.get("arn", UNKNOWN)
    return resolve(role["urn"]).get("arn", UNKNOWN)


def _urns_after_role(role: _Role) -> tuple[str, ...]:
    return (role.attachment.urn,) if isinstance(role, _CreatedRole) else ()


def _access_entries(name: str, inputs: Mapping[str, Any], register: Register, cluster: Registered) -> None:
    for entry_name, entry in sorted((inputs.get("accessEntries") or {}).items()):
        own = {
            "clusterName": cluster.outputs["name"],
            "principalArn": entry["principalArn"],
        }
        optional = {
            "kubernetesGroups": entry.get("kubernetesGroups"),
            "type": entry.get("type"),
            "userName": entry.get("username"),
            "tags": {**(inputs.get("tags") or {}), **(entry.get("tags") or {})} or None,
        }
        registered = register(
            "aws:eks/accessEntry:AccessEntry",
            f"{name}-{entry_name}",
            without_none({**own, **optional}),
            depends_on=(cluster.urn,),
        )
        for policy_name, policy in sorted((entry.get("accessPolicies") or {}).items()):
            register(
                "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
                f"{name}-{entry_name}-{policy_name}",
                {**own, "policyArn": policy["policyArn"], "accessScope": policy["accessScope"]},
                depends_on=(registered.urn,),
            )


def _add_ons(name: str, inputs: Mapping[str, Any], register: Register, cluster: Registered) -> list[Registered]:
    add_ons = []
    if not inputs.get("useDefaultVpcCni"):
        add_ons.append(
            register(
                "aws:eks/addon:Addon",
                f"{name}-vpc-cni",
                vpc_cni_arguments(inputs, cluster.outputs["name"]),
                depends_on=(cluster.urn,),
            )
        )
    proxy = inputs.get("kubeProxyAddonOptions") or {}
    if proxy.get("enabled") is not False:
        arguments = add_on_arguments("kube-proxy", inputs, cluster.outputs["name"], proxy)
        add_ons.append(register("aws:eks/addon:Addon", f"{name}-kube-proxy", arguments, depends_on=(cluster.urn,)))
    dns = inputs.get("corednsAddonOptions") or {}
    # Without a default node group the official component makes it only when it is asked for.
    if dns.get("enabled") is True or dns.get("configurationValues"):
        arguments = add_on_arguments("coredns", inputs, cluster.outputs["name"], dns)
        add_ons.append(register("aws:eks/addon:Addon", f"{name}-coredns", arguments, depends_on=(cluster.urn,)))
    return add_ons


def _oidc_provider(name: str, inputs: Mapping[str, Any], register: Register, cluster: Registered) -> Registered | None:
    if not inputs.get("createOidcProvider"):
        return None
    return register(
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
        f"{name}-oidcProvider",
        # No tags, though the component is given some.
        {"clientIdLists": [_OIDC_AUDIENCE], "url": _issuer(cluster), "thumbprintLists": [_ISSUER_THUMBPRINT]},
        depends_on=(cluster.urn,),
    )


def _issuer(cluster: Registered) -> Any:
    return _dig(cluster.outputs, "identities", 0, "oidcs", 0, "issuer")


def _outputs(
    inputs: Mapping[str, Any],
    role: _Role,
    cluster: Registered,
    oidc: Registered | None,
    provider: Registered,
    kubeconfig: Values,
) -> Values:
    cluster_reference = reference(cluster.urn, cluster.id)
    role_reference = reference(role.role.urn, role.role.id) if isinstance(role, _CreatedRole) else dict(role)
    oidc_outputs: Values = {}
    core_oidc: Values = {}
    if oidc is not None:
        issuer = _issuer(cluster)
        oidc_outputs = {
            "oidcProviderArn": oidc.outputs.get("arn", UNKNOWN),
            "oidcProviderUrl": issuer,
            "oidcIssuer": issuer if issuer == UNKNOWN else issuer.removeprefix("https://"),
        }
        core_oidc = {"oidcProvider": reference(oidc.urn, oidc.id)}
    core = {
        "cluster": cluster_reference,
        "clusterIamRole": role_reference,
        "endpoint": cluster.outputs.get("endpoint", UNKNOWN),
        "instanceRoles": [],
        "kubeconfig": kubeconfig,
        "nodeGroupOptions": {},
        "provider": reference(provider.urn, provider.id),
        "subnetIds": inputs.get("subnetIds", []),
        "privateSubnetIds": inputs.get("privateSubnetIds", []),
        "publicSubnetIds": inputs.get("publicSubnetIds", []),
        "tags": inputs.get("tags", {}),
        "vpcId": inputs.get("vpcId") or _dig(cluster.outputs, "vpcConfig", "vpcId"),
        **core_oidc,
    }
    return {
        "core": core,
        "eksCluster": cluster_reference,
        "clusterSecurityGroupId": _dig(cluster.outputs, "vpcConfig", "clusterSecurityGroupId"),
        "instanceRoles": [],
        "kubeconfig": kubeconfig,
        "kubeconfigJson": json.dumps(kubeconfig, sort_keys=True),
        **oidc_outputs,
    }


def reference(urn: str, id: str) -> Values:
    """Return a resource reference as the engine's wire format has it."""
    return {_special_sig_key: _special_resource_sig, "urn": urn, "id": id}


def _dig(value: Any, *steps: str | int) -> Any:
    """Return a member of a nested output; UNKNOWN when anything on the way is."""
    for step in steps:
        if value == UNKNOWN:
            return UNKNOWN
        value = value[step]
    return value
