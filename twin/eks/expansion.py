"""Expand ``eks.Cluster`` as pulumi-eks 4 does.

A re-implementation: the official provider is a Node bundle that is not published as a library. It covers the control
plane as this program uses it (API authentication, no default node group, no default security groups, see
docs/facts/eks.md#the-component); other options are refused (twin/eks/arguments.py), never ignored.

Children have the official component's URNs, inputs, dependencies and options, by the list in
tests/system/component/official_children.py. These differences remain:

* The kubeconfig of a cluster that does not exist yet is the twin's own, but in a first preview. It is unknown on AWS.
* Children use the program's SDK versions. The official component has an `aws` and a `kubernetes` provider of its own.
* `createOidcProvider` is refused: the component then connects to the issuer in previews too.
* Nothing runs `aws --version` or waits for the API server's `/healthz`.
* Outputs that this program does not use are absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pulumi.runtime.rpc import UNKNOWN, _special_resource_sig, _special_sig_key

from twin.eks.arguments import (
    ExpansionError,
    cluster_arguments,
    kube_proxy_arguments,
    refuse_unsupported,
    without_none,
)

__all__ = ["ExpansionError", "Register", "Registered", "expand_cluster", "reference"]

Values = dict[str, Any]

_IGNORED_CHANGES = ("accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons")


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
        ignore_changes: tuple[str, ...] = (),
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
    ``kubeconfig`` maps the cluster's outputs to its kubeconfig, or to UNKNOWN; ``resolve`` maps a URN to the outputs of a
    registered resource (the engine's ``pulumi:pulumi:getResource``). A child's ``depends_on`` has the resources that its
    inputs come from, too.

    Raises ExpansionError before anything is registered.
    """
    refuse_unsupported(inputs)
    role = dict(inputs["serviceRole"])
    cluster = register(
        "aws:eks/cluster:Cluster",
        f"{name}-eksCluster",
        cluster_arguments(name, inputs, resolve(role["urn"]).get("arn", UNKNOWN)),
        ignore_changes=_IGNORED_CHANGES,
    )
    register(
        "aws:eks/addon:Addon",
        f"{name}-kube-proxy",
        kube_proxy_arguments(inputs, cluster.outputs["name"]),
        depends_on=(cluster.urn,),
    )
    document = kubeconfig(cluster.outputs)
    text = UNKNOWN if document == UNKNOWN else json.dumps(document, sort_keys=True)
    provider = register("pulumi:providers:kubernetes", f"{name}-eks-k8s", {"kubeconfig": text}, depends_on=(cluster.urn,))
    _access_entries(name, inputs, register, cluster)
    kubeconfigs = {"kubeconfig": document, "kubeconfigJson": text}
    return _outputs(inputs, role, cluster, provider, kubeconfigs)


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
            # Not the component's.
            "tags": entry.get("tags"),
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
                parent=registered.urn,
                depends_on=(cluster.urn, registered.urn),
            )


def _issuer(cluster: Registered) -> Any:
    return _dig(cluster.outputs, "identities", 0, "oidcs", 0, "issuer")


def _outputs(
    inputs: Mapping[str, Any],
    role: Values,
    cluster: Registered,
    provider: Registered,
    kubeconfigs: Values,
) -> Values:
    cluster_reference = reference(cluster.urn, cluster.id)
    issuer = _issuer(cluster)
    core = {
        "cluster": cluster_reference,
        "clusterIamRole": role,
        "endpoint": cluster.outputs.get("endpoint", UNKNOWN),
        "instanceRoles": [],
        "kubeconfig": kubeconfigs["kubeconfig"],
        "nodeGroupOptions": {},
        "provider": reference(provider.urn, provider.id),
        "subnetIds": inputs["subnetIds"],
        "tags": inputs.get("tags", {}),
        "vpcId": inputs.get("vpcId") or _dig(cluster.outputs, "vpcConfig", "vpcId"),
    }
    return {
        "core": core,
        "eksCluster": cluster_reference,
        "clusterSecurityGroupId": _dig(cluster.outputs, "vpcConfig", "clusterSecurityGroupId"),
        "instanceRoles": [],
        **kubeconfigs,
        "oidcProviderArn": "",
        "oidcProviderUrl": issuer,
        "oidcIssuer": issuer if issuer == UNKNOWN else issuer.removeprefix("https://"),
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
