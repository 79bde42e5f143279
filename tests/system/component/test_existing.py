"""Staging in an existing VPC and in an existing cluster: brought up, refreshed and destroyed on moto."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from spec.settings import SettingsError, load
from spec.versions import PROJECT
from tests.bootstrap import aws_calls
from tests.bootstrap.roles import PREVIEW, deploy
from tests.paths import ROOT
from tests.system.component import existing_account
from tests.system.component.engine.account import fresh_account, living, seed_roles, seed_topics
from tests.system.component.engine.analyzer import running
from tests.system.component.engine.lifecycle import Refresh, destroy, refresh
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, deployed
from tests.system.component.existing_account import Vpc
from twin.aws.base.clients import Clients
from twin.aws.iam.authorization import refusals

STACK = "staging"
NETWORK_TYPES = (
    "aws:ec2/eip:Eip",
    "aws:ec2/flowLog:FlowLog",
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/route:Route",
    "aws:ec2/routeTable:RouteTable",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/vpc:Vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
)
CLUSTER_TYPES = (
    "aws:eks/accessEntry:AccessEntry",
    "aws:eks/addon:Addon",
    "aws:eks/cluster:Cluster",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    "eks:index:Cluster",
)


@dataclass(frozen=True)
class Lived:
    """A stack that was brought up and destroyed, and AWS's description of everything else before and after."""

    vpc: Vpc
    preview: Recording
    up: Recording
    refreshed: Refresh
    before: str
    previewed: str
    after: str
    leftovers: dict[str, list[str]]


def config_of(vpc: Vpc, *, cluster: bool) -> dict[str, Any]:
    """Return the tracked file of staging, in the existing VPC and, if `cluster` is given, in the existing cluster."""
    text = (ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8")
    config: dict[str, Any] = copy.deepcopy(yaml.safe_load(text)["config"])
    config[f"{PROJECT}:network"] = {"existing": vpc.section}
    if cluster:
        config[f"{PROJECT}:cluster"] = {"version": "1.35", "existing": {"name": existing_account.CLUSTER}}
    return config


def lived(*, cluster: bool) -> Lived:
    with fresh_account():
        clients = Clients("us-west-2")
        vpc = existing_account.make_vpc(clients)
        if cluster:
            existing_account.make_cluster(clients, vpc)
        config = config_of(vpc, cluster=cluster)
        settings = load(config, STACK, today=TODAY)
        if not cluster:
            seed_roles(clients, settings.cluster)
        seed_topics(clients, config)
        before, ids = existing_account.described(clients), living(clients)
        preview = deployed(settings, config, clients, preview=True)
        previewed = existing_account.described(clients)
        up = deployed(settings, config, clients, preview=False)
        refreshed = refresh(clients, up)
        destroy(clients, up)
        left = {kind: sorted(set(now) - set(ids.get(kind, ()))) for kind, now in living(clients).items()}
        after = existing_account.described(clients)
    return Lived(
        vpc, preview, up, refreshed, before, previewed, after, {kind: found for kind, found in left.items() if found}
    )


@pytest.fixture(scope="module")
def in_a_vpc() -> Lived:
    return lived(cluster=False)


@pytest.fixture(scope="module")
def in_a_cluster() -> Lived:
    return lived(cluster=True)


@pytest.fixture(params=["in_a_vpc", "in_a_cluster"])
def stack(request: pytest.FixtureRequest) -> Lived:
    found: Lived = request.getfixturevalue(request.param)
    return found


def test_what_was_there_before_is_there_after_as_it_was(stack: Lived) -> None:
    assert stack.previewed == stack.before
    assert stack.after == stack.before
    assert stack.leftovers == {}


def test_nothing_drifts(stack: Lived) -> None:
    assert stack.preview.urns() == stack.up.urns()
    assert (stack.refreshed.outputs, stack.refreshed.inputs) == ([], [])


def test_no_network_is_made(stack: Lived) -> None:
    assert [item.name for item in stack.up.of_type(*NETWORK_TYPES)] == []
    assert stack.up.exports["vpcId"] == stack.vpc.id
    assert stack.up.exports["zones"] == list(existing_account.ZONES)


def test_nodes_and_load_balancers_are_in_the_subnets_that_the_file_names(stack: Lived) -> None:
    private = list(stack.vpc.private.values())
    assert stack.up.one("aws:eks/nodeGroup:NodeGroup", "nodes-system-group").inputs["subnetIds"] == private
    classes = {item.name: item.inputs["spec"] for item in stack.up.of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")}
    assert classes.keys() == {"karpenter-class-cpu", "karpenter-class-g5"}
    for found in classes.values():
        assert found["subnetSelectorTerms"] == [{"id": id} for id in private]
    proxy = stack.up.one("kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyProxy").inputs["spec"]["provider"]["kubernetes"]
    assert proxy["envoyService"]["loadBalancerSourceRanges"] == ["10.60.0.0/16"]
    annotations = proxy["envoyService"]["annotations"]
    assert annotations["service.beta.kubernetes.io/aws-load-balancer-subnets"] == ",".join(private)


def test_a_cluster_is_made_in_the_private_subnets(in_a_vpc: Lived) -> None:
    made = in_a_vpc.up.one("aws:eks/cluster:Cluster")
    assert made.inputs["name"] == "triton-staging"
    assert made.inputs["vpcConfig"]["subnetIds"] == list(in_a_vpc.vpc.private.values())


def test_no_control_plane_key_log_group_or_add_on_is_made_in_a_cluster_that_was_there(in_a_cluster: Lived) -> None:
    assert [item.name for item in in_a_cluster.up.of_type(*CLUSTER_TYPES)] == []
    groups = [item.name for item in in_a_cluster.up.of_type("aws:cloudwatch/logGroup:LogGroup")]
    assert groups == ["container-logs-log-group"]
    keys = [item.name for item in in_a_cluster.up.of_type("aws:kms/key:Key")]
    assert keys == ["logs-key", "models-encryption-key", "requests-encryption-key"]


def test_what_runs_in_a_cluster_that_was_there_knows_it_by_its_name(in_a_cluster: Lived) -> None:
    name, up = existing_account.CLUSTER, in_a_cluster.up
    assert up.exports["clusterName"] == name
    assert {item.inputs["clusterName"] for item in up.of_type("aws:eks/nodeGroup:NodeGroup")} == {name}
    assert {item.inputs["clusterName"] for item in up.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")} == {
        name
    }
    releases = up.of_type("kubernetes:helm.sh/v3:Release")
    values = {item.inputs["chart"].rpartition("/")[2]: item.inputs.get("values", {}) for item in releases}
    assert values["karpenter"]["settings"]["clusterName"] == name
    assert values["aws-load-balancer-controller"]["clusterName"] == name


def test_no_policy_is_violated(stack: Lived) -> None:
    with running(ROOT / "policies") as pack:
        day = {"asOf": TODAY.isoformat()}
        pack.configure({"eks-version-supported": day, "eks-version-ageing": day})
        assert [str(found) for found in pack.judge(stack.up)] == []


def test_the_roles_of_the_workflows_may_make_and_read_all_of_it(stack: Lived) -> None:
    strangers = (stack.vpc.id, *stack.vpc.private.values(), *stack.vpc.public.values())
    made = aws_calls.of_recording(stack.up, strangers)
    assert list(refusals(deploy("staging", existing_account.CLUSTER), aws_calls.calls(made))) == []
    assert list(refusals(PREVIEW, aws_calls.reads(made))) == []


def test_a_strangers_cluster_is_closed_to_the_workflows_until_bootstrap_names_it(in_a_cluster: Lived) -> None:
    made = aws_calls.of_recording(in_a_cluster.up, (in_a_cluster.vpc.id, *in_a_cluster.vpc.private.values()))
    refused = list(refusals(deploy("staging"), aws_calls.calls(made)))
    assert refused and all("eks/" in one or "cluster/shared" in one for one in refused)


def test_mistakes_about_both_are_told_at_once_and_before_the_first_resource() -> None:
    with fresh_account():
        clients = Clients("us-west-2")
        vpc = existing_account.make_vpc(clients)
        existing_account.make_cluster(clients, vpc, mode="CONFIG_MAP", oidc=False)
        clients("ec2").modify_vpc_attribute(VpcId=vpc.id, EnableDnsHostnames={"Value": False})
        config = config_of(vpc, cluster=True)
        existing = config[f"{PROJECT}:network"]["existing"]
        public = existing["privateSubnetIds"]["us-west-2b"] = existing["publicSubnetIds"].pop("us-west-2b")
        config[f"{PROJECT}:cluster"]["version"] = "1.34"
        issuer = clients("eks").describe_cluster(name="shared")["cluster"]["identity"]["oidc"]["issuer"]
        seed_topics(clients, config)
        before = living(clients)
        with pytest.raises(SettingsError) as caught:
            deployed(load(config, STACK, today=TODAY), config, clients, preview=False)
        assert living(clients) == before
        [main, *_] = clients("ec2").describe_internet_gateways()["InternetGateways"]
    assert [str(problem) for problem in caught.value.problems] == [
        f"network.existing.vpcId: {vpc.id} has enableDnsHostnames off, and nodes would not find the API server; aws ec2 "
        f"modify-vpc-attribute --vpc-id {vpc.id} --enable-dns-hostnames",
        f"network.existing.privateSubnetIds.us-west-2b: {public} is public: its default route leads to "
        f"{main['InternetGatewayId']}, over which nodes without a public address reach nothing; give a subnet whose "
        "default route leads to a NAT gateway or a transit gateway",
        'cluster.version: shared runs Kubernetes 1.35, and nodes and charts would be those of 1.34; write "1.35", or '
        "upgrade the cluster",
        "cluster.existing.name: shared knows no access entries (authentication mode CONFIG_MAP), by which nodes of this "
        "stack join; aws eks update-cluster-config --name shared --access-config authenticationMode=API_AND_CONFIG_MAP",
        "cluster.existing.name: IAM has no OIDC provider of shared, by which pods take their roles; aws "
        f"iam create-open-id-connect-provider --url {issuer} --client-id-list sts.amazonaws.com",
    ]
