"""The children of `eks.Cluster`, apart from what this program's own stacks show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from twin.aws.base.handler import UNKNOWN
from twin.eks.expansion import ExpansionError, expand_cluster, reference

ADMIN = "arn:aws:iam::123456789012:role/admin"
BASE = {"name": "c", "subnetIds": ["a", "b"], "skipDefaultNodeGroup": True, "skipDefaultSecurityGroups": True}
CLUSTER_OUTPUTS = {
    "name": "c",
    "endpoint": "https://c",
    "identities": [{"oidcs": [{"issuer": "https://oidc/id/1"}]}],
    "vpcConfig": {"clusterSecurityGroupId": "sg-1", "vpcId": "vpc-1"},
}


@dataclass(frozen=True)
class Child:
    type: str
    name: str
    props: Mapping[str, Any]
    depends_on: tuple[str, ...]
    outputs: dict[str, Any]

    @property
    def urn(self) -> str:
        return f"urn:{self.name}"

    @property
    def id(self) -> str:
        return f"id-{self.name}"


class Expanded:
    """The children and outputs of one expansion."""

    def __init__(self, outputs_of_cluster: Mapping[str, Any] = CLUSTER_OUTPUTS, **inputs: Any) -> None:
        self.children: dict[str, Child] = {}
        self._cluster = dict(outputs_of_cluster)
        self.outputs = expand_cluster(
            "k",
            {**BASE, **inputs},
            self._register,
            kubeconfig=lambda cluster: {"current-context": cluster},
            resolve=lambda urn: {"arn": f"arn-of-{urn}"},
        )

    def _register(self, type: str, name: str, props: Mapping[str, Any], **options: Any) -> Child:
        own = self._cluster if type == "aws:eks/cluster:Cluster" else {"name": f"{name}-name", "arn": f"arn-of-{name}"}
        child = Child(type, name, props, tuple(options.get("depends_on", ())), {**props, **own})
        self.children[name] = child
        return child


def test_without_a_role_it_makes_one_and_attaches_the_policy_before_the_cluster() -> None:
    children = Expanded().children
    assert list(children)[:3] == ["k-eksRole-role", "k-eksRole-AmazonEKSClusterPolicy", "k-eksCluster"]
    assert children["k-eksCluster"].props["roleArn"] == "arn-of-k-eksRole-role"
    assert children["k-eksCluster"].depends_on == ("urn:k-eksRole-AmazonEKSClusterPolicy",)


def test_a_role_that_is_given_is_looked_up_by_its_reference() -> None:
    children = Expanded(serviceRole=reference("urn:mine", "mine")).children
    assert "k-eksRole-role" not in children
    assert children["k-eksCluster"].props["roleArn"] == "arn-of-urn:mine"


def test_the_network_plugin_and_kube_proxy_are_managed_add_ons_unless_they_are_switched_off() -> None:
    assert {"k-vpc-cni", "k-kube-proxy"} <= Expanded().children.keys()
    assert "k-vpc-cni" not in Expanded(useDefaultVpcCni=True).children
    assert "k-kube-proxy" not in Expanded(kubeProxyAddonOptions={"enabled": False}).children


def test_dns_is_an_add_on_only_when_it_is_asked_for() -> None:
    assert "k-coredns" not in Expanded().children
    assert "k-coredns" in Expanded(corednsAddonOptions={"enabled": True}).children


def test_options_of_the_network_plugin_become_its_configuration() -> None:
    options = {"addonVersion": "v1", "enablePrefixDelegation": True, "warmPrefixTarget": 2, "enableNetworkPolicy": True}
    props = Expanded(vpcCniOptions=options).children["k-vpc-cni"].props
    assert props["addonVersion"] == "v1"
    assert json.loads(props["configurationValues"]) == {
        "enableNetworkPolicy": "true",
        "env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "2"},
    }


def test_outputs_of_a_cluster_that_exists() -> None:
    outputs = Expanded().outputs
    assert outputs["oidcProviderUrl"] == "https://oidc/id/1"
    assert outputs["oidcIssuer"] == "oidc/id/1"
    assert outputs["oidcProviderArn"] == ""
    assert outputs["clusterSecurityGroupId"] == "sg-1"
    assert outputs["eksCluster"] == reference("urn:k-eksCluster", "id-k-eksCluster")
    assert json.loads(outputs["kubeconfigJson"]) == {"current-context": "c"}


def test_outputs_of_a_preview_are_unknown_except_the_kubeconfig() -> None:
    planned = {"name": "c", "endpoint": UNKNOWN, "identities": UNKNOWN, "vpcConfig": {"clusterSecurityGroupId": UNKNOWN}}
    outputs = Expanded(planned, vpcId="vpc-1").outputs
    assert (outputs["oidcProviderUrl"], outputs["oidcIssuer"]) == (UNKNOWN, UNKNOWN)
    assert outputs["clusterSecurityGroupId"] == UNKNOWN
    assert json.loads(outputs["kubeconfigJson"]) == {"current-context": "c"}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"endpointPublicAccess": False, "publicAccessCidrs": ["203.0.113.0/24"]},
            "publicAccessCidrs: cannot be set when endpointPublicAccess is false",
        ),
        (
            {"accessEntries": {"a": {"principalArn": ADMIN}}, "authenticationMode": "CONFIG_MAP"},
            "accessEntries: need authenticationMode API or API_AND_CONFIG_MAP",
        ),
        (
            {"privateSubnetIds": ["a"]},
            "subnetIds: not together with privateSubnetIds or publicSubnetIds",
        ),
        (
            {"fargate": True},
            "fargate: the twin's eks.Cluster does not have it: extend twin/eks/arguments.py",
        ),
        (
            {"createOidcProvider": True},
            "createOidcProvider: Cannot retrieve the certificate fingerprint at the issuer URL: the component connects to "
            "oidc.eks.<region> in every preview, and neither the twin nor a VPC with an eks endpoint has a route to it; "
            "create an aws.iam.OpenIdConnectProvider",
        ),
        (
            {"vpcCniOptions": {"eniMtu": 9001}},
            "vpcCniOptions.eniMtu: extend twin/eks/arguments.py",
        ),
    ],
)
def test_what_the_component_would_not_do_is_refused_before_anything_is_registered(
    inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExpansionError) as caught:
        Expanded(**inputs)
    assert str(caught.value) == message
