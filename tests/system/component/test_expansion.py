"""The children and outputs of `eks.Cluster`, compared with the official component's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.system.component.engine.stack_run import StackRun
from tests.system.component.official_children import CHILDREN, COMPONENT, OfficialChild
from twin.aws.base.handler import UNKNOWN
from twin.eks.expansion import ExpansionError, expand_cluster, reference

ADMIN = "arn:aws:iam::123456789012:role/admin"
VIEW = {"policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy", "accessScope": {"type": "cluster"}}
INPUTS = {
    "accessEntries": {"admin": {"principalArn": ADMIN, "accessPolicies": {"view": VIEW}}},
    "authenticationMode": "API",
    "bootstrapSelfManagedAddons": False,
    "corednsAddonOptions": {"enabled": False},
    "createOidcProvider": False,
    "deletionProtection": True,
    "enabledClusterLogTypes": ["api"],
    "encryptionConfigKeyArn": "arn:aws:kms:us-west-2:123456789012:key/1",
    "endpointPrivateAccess": True,
    "endpointPublicAccess": True,
    "kubeProxyAddonOptions": {"version": "v1"},
    "name": "c",
    "providerCredentialOpts": {},
    "publicAccessCidrs": ["203.0.113.0/24"],
    "serviceRole": reference("urn:role", "role"),
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "subnetIds": ["a", "b"],
    "tags": {"project": "p"},
    "upgradePolicy": {"supportType": "STANDARD"},
    "useDefaultVpcCni": True,
    "version": "1.35",
    "vpcId": "vpc-1",
}
"""All arguments that the program sets."""
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
    parent: str | None
    depends_on: tuple[str, ...]
    ignore_changes: tuple[str, ...]
    outputs: dict[str, Any]

    @property
    def urn(self) -> str:
        return f"urn:{self.name}"

    @property
    def id(self) -> str:
        return f"id-{self.name}"

    def as_official(self) -> OfficialChild:
        """Return the child in the format of the recorded list, without its source."""

        def short(urn: str) -> str:
            return urn.removeprefix("urn:k")

        return OfficialChild(
            self.type,
            self.name.removeprefix("k"),
            "",
            frozenset(self.props),
            COMPONENT if self.parent is None else short(self.parent),
            frozenset(map(short, self.depends_on)),
            self.ignore_changes,
        )


class Expanded:
    """The children and outputs of one expansion."""

    def __init__(self, outputs_of_cluster: Mapping[str, Any] = CLUSTER_OUTPUTS, **inputs: Any) -> None:
        self.children: dict[str, Child] = {}
        self._cluster = dict(outputs_of_cluster)
        self.outputs = expand_cluster(
            "k",
            {**INPUTS, **inputs},
            self._register,
            kubeconfig=lambda cluster: UNKNOWN if cluster["endpoint"] == UNKNOWN else {"current-context": cluster["name"]},
            resolve=lambda urn: {"arn": f"arn-of-{urn}"},
        )

    def _register(
        self,
        type: str,
        name: str,
        props: Mapping[str, Any],
        *,
        parent: str | None = None,
        depends_on: tuple[str, ...] = (),
        ignore_changes: tuple[str, ...] = (),
    ) -> Child:
        own = self._cluster if type == "aws:eks/cluster:Cluster" else {"name": f"{name}-name", "arn": f"arn-of-{name}"}
        child = Child(type, name, props, parent, depends_on, ignore_changes, {**props, **own})
        self.children[name] = child
        return child


def test_the_children_are_those_of_the_official_component() -> None:
    children = [child.as_official() for child in Expanded().children.values()]
    expected = [OfficialChild(one.type, one.name, "", *_rest(one)) for one in CHILDREN]
    assert sorted(children, key=repr) == sorted(expected, key=repr)


def _rest(child: OfficialChild) -> tuple[frozenset[str], str, frozenset[str], tuple[str, ...]]:
    return child.inputs, child.parent, child.depends_on, child.ignore_changes


def test_the_recorded_children_are_for_all_arguments_of_the_program(stack_runs: Callable[[str], StackRun]) -> None:
    given = {key for stack in ("dev", "prod") for key in stack_runs(stack).up.one("eks:index:Cluster").inputs}
    assert given <= INPUTS.keys()


def test_the_component_of_each_stack_names_no_aws_profile(stack_run: StackRun) -> None:
    """By default the official component writes AWS_PROFILE into its provider; a laptop and CI would keep changing it."""
    assert stack_run.up.one("eks:index:Cluster").inputs["providerCredentialOpts"] == {}


def test_tags_of_the_component_win_and_reach_no_access_entry() -> None:
    children = Expanded(tags={"project": "p", "Name": "mine"}).children
    assert children["k-eksCluster"].props["tags"] == {"project": "p", "Name": "mine"}
    assert Expanded().children["k-eksCluster"].props["tags"] == {"project": "p", "Name": "k-eksCluster"}
    entry = {"principalArn": ADMIN, "tags": {"owner": "o"}}
    assert Expanded(accessEntries={"admin": entry}).children["k-admin"].props["tags"] == {"owner": "o"}


def test_the_service_role_is_looked_up_by_its_reference() -> None:
    assert Expanded().children["k-eksCluster"].props["roleArn"] == "arn-of-urn:role"


def test_outputs_of_a_cluster_that_exists() -> None:
    outputs = Expanded().outputs
    assert outputs["oidcProviderUrl"] == "https://oidc/id/1"
    assert outputs["oidcIssuer"] == "oidc/id/1"
    assert outputs["oidcProviderArn"] == ""
    assert outputs["clusterSecurityGroupId"] == "sg-1"
    assert outputs["eksCluster"] == reference("urn:k-eksCluster", "id-k-eksCluster")
    assert json.loads(outputs["kubeconfigJson"]) == {"current-context": "c"}


def test_outputs_of_a_preview_are_unknown() -> None:
    planned = {"name": "c", "endpoint": UNKNOWN, "identities": UNKNOWN, "vpcConfig": {"clusterSecurityGroupId": UNKNOWN}}
    expanded = Expanded(planned)
    outputs = expanded.outputs
    assert (outputs["oidcProviderUrl"], outputs["oidcIssuer"]) == (UNKNOWN, UNKNOWN)
    assert outputs["clusterSecurityGroupId"] == UNKNOWN
    assert (outputs["kubeconfig"], outputs["kubeconfigJson"]) == (UNKNOWN, UNKNOWN)
    assert expanded.children["k-eks-k8s"].props == {"kubeconfig": UNKNOWN}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"endpointPublicAccess": False, "publicAccessCidrs": ["203.0.113.0/24"]},
            "publicAccessCidrs: cannot be set when endpointPublicAccess is false",
        ),
        (
            {"authenticationMode": "CONFIG_MAP"},
            "accessEntries: need authenticationMode API or API_AND_CONFIG_MAP",
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
            {"useDefaultVpcCni": False},
            "useDefaultVpcCni: the twin's eks.Cluster has only true: extend twin/eks/arguments.py",
        ),
        (
            {"serviceRole": None},
            "serviceRole: the twin's eks.Cluster needs it: extend twin/eks/arguments.py",
        ),
        (
            {"corednsAddonOptions": {"enabled": True}},
            "corednsAddonOptions: the twin's eks.Cluster has only enabled: false: extend twin/eks/arguments.py",
        ),
        (
            {"providerCredentialOpts": {"profileName": "mine"}},
            "providerCredentialOpts: the twin's eks.Cluster has only an empty one: extend twin/eks/arguments.py",
        ),
    ],
)
def test_what_the_component_would_not_do_is_refused_before_anything_is_registered(
    inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExpansionError) as caught:
        Expanded(**inputs)
    assert str(caught.value) == message
