"""An existing VPC and cluster, from preflight's AWS requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stackctl.preflight.checks import add_ons, existing_cluster, existing_network, subnet_addresses
from stackctl.preflight.checks.check import Status, Subject
from tests.spec.existing_config import IN_A_CLUSTER, IN_A_VPC, VPC
from tests.spec.test_stack_mistakes_monitoring import SECTION
from tests.spec.test_stack_mistakes_worker import BY_HAND
from tests.system.component import existing_account
from twin.aws.base.clients import Clients

ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
CALLER = "arn:aws:sts::123456789012:assumed-role/deployer/session"


@pytest.fixture
def vpc(account: str) -> existing_account.Vpc:
    return existing_account.make_vpc(Clients("us-west-2"))


def results(check: Any, subject: Subject) -> list[tuple[Status, str]]:
    return [(finding.status, finding.message) for finding in check.check(subject)]


def test_a_vpc_that_does_is_ok_and_its_subnets_are_asked_for_what_is_free(
    vpc: existing_account.Vpc, subject: Callable[..., Subject]
) -> None:
    given = subject({"network": {"existing": vpc.section}})
    [nat] = boto3.client("ec2", region_name="us-west-2").describe_nat_gateways()["NatGateways"]
    assert results(existing_network, given) == [
        (Status.OK, f"{vpc.id}: 6 subnets, names on, nodes go out by {nat['NatGatewayId']}")
    ]
    assert [(status, message.split(":")[0]) for status, message in results(subnet_addresses, given)] == [
        (Status.OK, f"{id} ({zone}, 10.60.{16 * number}.0/20)") for number, (zone, id) in enumerate(vpc.private.items())
    ]


def test_what_is_wrong_with_a_vpc_is_told_at_once_with_what_would_be_right(
    vpc: existing_account.Vpc, subject: Callable[..., Subject]
) -> None:
    ec2 = boto3.client("ec2", region_name="us-west-2")
    ec2.modify_vpc_attribute(VpcId=vpc.id, EnableDnsSupport={"Value": False})
    alone = ec2.create_route_table(VpcId=vpc.id)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=alone, SubnetId=vpc.private["us-west-2c"])
    ec2.create_vpc_endpoint(VpcId=vpc.id, ServiceName="com.amazonaws.us-west-2.sts", VpcEndpointType="Interface")
    found = list(existing_network.check(subject({"network": {"existing": vpc.section}})))
    assert [finding.status for finding in found] == [Status.FAIL, Status.FAIL]
    assert found[0].remedy == f"aws ec2 modify-vpc-attribute --vpc-id {vpc.id} --enable-dns-support"
    lacking = found[1].message.partition("no endpoint for ")[2].partition(":")[0].split(", ")
    assert found[1].message.startswith(
        f"network.existing.privateSubnetIds.us-west-2c: {vpc.private['us-west-2c']} has no default"
    )
    assert (lacking[:4], "sts" in lacking) == (["s3", "ecr.api", "ecr.dkr", "autoscaling"], False)


def test_the_route_table_of_a_gateway_is_no_subnets(
    vpc: existing_account.Vpc, subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    given = subject({"network": {"existing": vpc.section}})
    main = {"Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}], "Associations": [{"Main": True}]}
    incoming = {"Routes": [], "Associations": [{"Main": False, "GatewayId": "igw-1"}]}
    asked = {"Filters": [{"Name": "vpc-id", "Values": [vpc.id]}]}
    answers(given, "ec2").add_response("describe_route_tables", {"RouteTables": [main, incoming]}, asked)
    assert existing_network._default_routes(given.readers("ec2"), vpc.id) == {"": "nat-1"}


def test_a_route_to_what_somebody_has_deleted_leads_nowhere(
    vpc: existing_account.Vpc, subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    given = subject({"network": {"existing": vpc.section}})
    route = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "blackhole"}
    tables = [{"Routes": [route], "Associations": [{"Main": True}]}]
    answers(given, "ec2").add_response("describe_route_tables", {"RouteTables": tables})
    assert existing_network._default_routes(given.readers("ec2"), vpc.id) == {"": None}


def test_endpoints_in_china_are_known_by_their_names_there(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    given = subject()
    there = replace(given, settings=SimpleNamespace(region="cn-north-1"))
    names = ("cn.com.amazonaws.cn-north-1.sts", "com.amazonaws.cn-north-1.s3", "com.amazonaws.cn-north-1.ec2")
    found = {"VpcEndpoints": [{"ServiceName": name, "State": "available"} for name in names]}
    answers(given, "ec2").add_response("describe_vpc_endpoints", found, {"Filters": [{"Name": "vpc-id", "Values": [VPC]}]})
    assert existing_network._endpoints(there, VPC) == {"s3", "sts"}


def test_without_them_the_checks_have_nothing_to_ask(subject: Callable[..., Subject]) -> None:
    given = subject()
    assert results(existing_network, given) == [(Status.OK, "the stack makes its own VPC")]
    assert results(existing_cluster, given) == [(Status.OK, "the stack makes its own cluster")]


def described(**changes: Any) -> dict[str, Any]:
    """Return EKS's description of the cluster."""
    return {
        "cluster": {
            "name": "shared",
            "arn": "arn:aws:eks:us-west-2:123456789012:cluster/shared",
            "createdAt": datetime(2026, 1, 1, tzinfo=UTC),
            "version": "1.35",
            "status": "ACTIVE",
            "endpoint": "https://example.eks.amazonaws.com",
            "certificateAuthority": {"data": "Y2E="},
            "identity": {"oidc": {"issuer": f"https://{ISSUER}"}},
            "accessConfig": {"authenticationMode": "API"},
            "resourcesVpcConfig": {"vpcId": VPC, "clusterSecurityGroupId": "sg-0123456789abcdef0"},
            **changes,
        }
    }


def scripted(eks: Stubber, cluster: dict[str, Any], principals: list[str], listed: list[str], values: str = "") -> None:
    named = {"clusterName": "shared"}
    eks.add_response("describe_cluster", cluster, {"name": "shared"})
    eks.add_response("list_access_entries", {"accessEntries": principals}, named)
    eks.add_response("list_addons", {"addons": listed}, named)
    if "vpc-cni" in listed:
        eks.add_response("describe_addon", {"addon": {"configurationValues": values}}, {**named, "addonName": "vpc-cni"})


@pytest.fixture
def in_a_cluster(subject: Callable[..., Subject]) -> Subject:
    boto3.client("iam").create_open_id_connect_provider(Url=f"https://{ISSUER}", ThumbprintList=[])
    given = subject(IN_A_CLUSTER)
    return Subject(given.settings, given.readers, type(given.caller)(given.caller.account, CALLER))


@pytest.mark.parametrize(
    "values", ['{"env": {"ENABLE_PREFIX_DELEGATION": "true"}}', 'env:\n  ENABLE_PREFIX_DELEGATION: "true"\n']
)
def test_a_cluster_that_does_is_ok(values: str, in_a_cluster: Subject, answers: Callable[..., Stubber]) -> None:
    names = ["vpc-cni", "coredns", "kube-proxy"]
    role = "arn:aws:iam::123456789012:role/teams/deployer"
    scripted(answers(in_a_cluster, "eks"), described(), [role], names, values)
    assert results(existing_cluster, in_a_cluster) == [
        (Status.OK, "shared: Kubernetes 1.35, access entries, an OIDC provider"),
        (Status.OK, f"{CALLER} has an access entry of shared"),
        (Status.OK, "vpc-cni of shared: prefix delegation is on"),
    ]
    assert results(add_ons, in_a_cluster) == [(Status.OK, "none are made: those of the cluster are its owner's")]


def test_a_cluster_that_eks_still_makes_is_waited_for(in_a_cluster: Subject, answers: Callable[..., Stubber]) -> None:
    found = described(status="CREATING")["cluster"]
    young = {key: value for key, value in found.items() if key not in ("endpoint", "certificateAuthority", "identity")}
    answers(in_a_cluster, "eks").add_response("describe_cluster", {"cluster": young}, {"name": "shared"})
    assert results(existing_cluster, in_a_cluster) == [(Status.FAIL, "cluster.existing.name: shared is CREATING")]


def test_a_cluster_that_eks_only_shows_is_told(in_a_cluster: Subject, answers: Callable[..., Stubber]) -> None:
    found = described(connectorConfig={"provider": "OTHER"})["cluster"]
    elsewhere = {key: value for key, value in found.items() if key not in ("version", "resourcesVpcConfig")}
    answers(in_a_cluster, "eks").add_response("describe_cluster", {"cluster": elsewhere}, {"name": "shared"})
    assert results(existing_cluster, in_a_cluster) == [
        (Status.FAIL, "cluster.existing.name: shared runs elsewhere, and EKS Connector only shows it")
    ]


def test_a_user_below_a_path_has_the_entry_of_its_own_arn(in_a_cluster: Subject, answers: Callable[..., Stubber]) -> None:
    user = "arn:aws:iam::123456789012:user/teams/jane"
    given = replace(in_a_cluster, caller=replace(in_a_cluster.caller, arn=user))
    scripted(answers(given, "eks"), described(), [user], ["coredns", "kube-proxy"])
    assert results(existing_cluster, given)[1] == (Status.OK, f"{user} has an access entry of shared")


def test_access_fails_where_entries_alone_count_and_add_ons_are_warned_of(
    in_a_cluster: Subject, answers: Callable[..., Stubber]
) -> None:
    others = ["arn:aws:iam::123456789012:role/deployer-of-others"]
    scripted(answers(in_a_cluster, "eks"), described(), others, ["vpc-cni", "coredns"])
    assert [(finding.status, finding.message) for finding in existing_cluster.check(in_a_cluster)][1:] == [
        (Status.FAIL, f"shared has no access entry of {CALLER}"),
        (Status.WARN, "EKS manages no kube-proxy in shared; where it does not run in another way, no Service answers"),
        (
            Status.WARN,
            "vpc-cni of shared has no ENABLE_PREFIX_DELEGATION in its configuration; a node would take more pods than "
            "it has addresses for, and the rest of them would wait",
        ),
    ]


def test_a_cluster_with_the_config_map_may_know_the_caller_by_it(
    in_a_cluster: Subject, answers: Callable[..., Stubber]
) -> None:
    both = described(accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"}, version="1.34")
    scripted(answers(in_a_cluster, "eks"), both, [], ["coredns", "kube-proxy"])
    found = list(existing_cluster.check(in_a_cluster))
    assert [(finding.status, finding.message.partition(" ")[0]) for finding in found] == [
        (Status.FAIL, "cluster.version:"),
        (Status.WARN, "shared"),
        (Status.WARN, "EKS"),
    ]


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"models.access": "mountpoint"}, {"aws-mountpoint-s3-csi-driver"}),
        ({"nodes.autoscaler": "karpenter", "gpu.pools[0].min": 0, "gpu.pools[0].desired": 0}, {"eks-pod-identity-agent"}),
        ({"monitoring": SECTION}, {"aws-ebs-csi-driver", "eks-pod-identity-agent"}),
        ({"monitoring": {key: SECTION[key] for key in SECTION if key != "alertTopicArn"}}, {"aws-ebs-csi-driver"}),
        ({"tracing": {"exporter": "xray"}}, {"eks-pod-identity-agent"}),
        ({"tracing": {"exporter": "otlp", "endpoint": "https://otlp.example.com:4318"}}, set()),
        ({"logs": {"containers": {"retentionDays": 7}}}, {"eks-pod-identity-agent"}),
        ({"worker": BY_HAND}, {"eks-pod-identity-agent"}),
    ],
)
def test_a_section_needs_its_add_ons(changes: dict[str, Any], needed: set[str], subject: Callable[..., Subject]) -> None:
    always = {"vpc-cni", "coredns", "kube-proxy"}
    assert existing_cluster.needed_add_ons(subject(IN_A_VPC).settings).keys() == always
    assert existing_cluster.needed_add_ons(subject({**IN_A_VPC, **changes}).settings).keys() == always | needed
