"""Quotas compared with needs. moto has only VPC's quotas; botocore's Stubber answers for EC2 and EKS."""

from __future__ import annotations

from collections.abc import Callable

import boto3
import pytest
from botocore.stub import Stubber

from stackctl import quotas as needs
from stackctl.preflight.checks import service_quotas
from stackctl.preflight.checks.check import Finding, Status, Subject
from stackctl.preflight.checks.usage import used_by_others
from stackctl.quotas import Quota, QuotaNeed
from tests.spec.existing_config import IN_A_CLUSTER

REGION = "us-west-2"
EC2_QUOTAS = {needs.STANDARD: 100, needs.G: 16, needs.P: 192, needs.ADDRESSES: 5}

_OF_EKS = {needs.CLUSTERS: 100, needs.NODE_GROUPS: 30, needs.NODES_OF_A_GROUP: 450}


def answer(stubber: Stubber, quota: Quota, value: float) -> None:
    stubber.add_response(
        "get_service_quota",
        {"Quota": {"Value": value}},
        {"ServiceCode": quota.service, "QuotaCode": quota.code},
    )


def answer_all(stubber: Stubber, values: dict[Quota, float]) -> None:
    order = (needs.STANDARD, needs.G, needs.P, needs.VPCS, needs.INTERNET_GATEWAYS, needs.ADDRESSES, needs.NAT_GATEWAYS)
    for quota in (*order, needs.CLUSTERS, needs.NODE_GROUPS, needs.NODES_OF_A_GROUP):
        answer(stubber, quota, values.get(quota, _OF_EKS.get(quota, 5)))


def found(subject: Subject) -> dict[str, Finding]:
    return {finding.message.partition(" (")[0]: finding for finding in service_quotas.check(subject)}


def test_quotas_that_are_large_enough_are_ok(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    answer_all(answers(one, "service-quotas"), EC2_QUOTAS)
    assert {name: finding.status for name, finding in found(one).items()} == dict.fromkeys(
        (
            "Running On-Demand Standard",
            "Running On-Demand G and VT instances",
            "Running On-Demand P instances",
            "VPCs per Region",
            "Internet gateways per Region",
            "EC2-VPC Elastic IPs",
            "NAT gateways per Availability Zone",
            "Clusters",
            "Managed node groups per cluster",
            "Nodes per managed node group",
        ),
        Status.OK,
    )


def test_a_gpu_quota_of_zero_fails_with_the_command_that_raises_it(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    answer_all(answers(one, "service-quotas"), {**EC2_QUOTAS, needs.G: 0})
    finding = found(one)["Running On-Demand G and VT instances"]
    assert finding.status is Status.FAIL
    assert finding.message == (
        "Running On-Demand G and VT instances (L-DB2E81BA): 0 vCPUs, 0 used by others; `pulumi up` takes 8 "
        "(g5: 2 to 4 x g5.xlarge)"
    )
    assert finding.remedy == (
        "aws service-quotas request-service-quota-increase --region us-west-2 --service-code ec2 "
        "--quota-code L-DB2E81BA --desired-value 16  "
        "(or https://us-west-2.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-DB2E81BA); "
        "for GPUs AWS may take days"
    )


def test_a_quota_below_the_pools_max_is_a_warning(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    answer_all(answers(one, "service-quotas"), {**EC2_QUOTAS, needs.P: 96})
    finding = found(one)["Running On-Demand P instances"]
    assert (finding.status, finding.message.partition("; ")[2]) == (
        Status.WARN,
        "scaling ends at 96 of 192 (p4d: 0 to 2 x p4d.24xlarge)",
    )


@pytest.mark.parametrize(("quota", "expected"), [(needs.VPCS, 5), (needs.NAT_GATEWAYS, 5), (needs.INTERNET_GATEWAYS, 5)])
def test_quotas_of_the_vpc_are_read_from_the_account(subject: Callable[..., Subject], quota: Quota, expected: int) -> None:
    assert service_quotas.quota_value(subject().readers, QuotaNeed(quota, 1, 1, ())) == expected


def test_a_quota_that_the_account_has_no_value_of_its_own_for_has_aws_default(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one, codes = subject(), {"ServiceCode": "eks", "QuotaCode": "L-1194D53C"}
    stubber = answers(one, "service-quotas")
    stubber.add_client_error("get_service_quota", "NoSuchResourceException", expected_params=codes)
    stubber.add_response("get_aws_default_service_quota", {"Quota": {"Value": 100.0}}, codes)
    assert service_quotas.quota_value(one.readers, QuotaNeed(needs.CLUSTERS, 1, 1, ())) == 100


def test_a_missing_permission_leaves_each_quota_unknown_and_says_which(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    stubber = answers(one, "service-quotas")
    for _ in range(10):
        stubber.add_client_error("get_service_quota", "AccessDeniedException")
    findings = list(service_quotas.check(one))
    assert {(finding.status, finding.message) for finding in findings} == {
        (Status.UNKNOWN, "needs servicequotas:GetServiceQuota")
    }
    assert len(findings) == 10


def test_only_what_others_use_counts(subject: Callable[..., Subject]) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    ours = [{"Key": "project", "Value": "triton-eks"}, {"Key": "environment", "Value": "staging"}]
    for instance_type, tags in (("g5.xlarge", ours), ("g4dn.xlarge", []), ("g5.2xlarge", []), ("m7i.large", [])):
        specifications = [{"ResourceType": "instance", "Tags": tags}] if tags else []
        ec2.run_instances(
            ImageId="ami-12345678", InstanceType=instance_type, MinCount=1, MaxCount=1, TagSpecifications=specifications
        )
    stopped = ec2.run_instances(ImageId="ami-12345678", InstanceType="g5.xlarge", MinCount=1, MaxCount=1)
    ec2.stop_instances(InstanceIds=[stopped["Instances"][0]["InstanceId"]])
    ec2.allocate_address(Domain="vpc")
    mine = ec2.allocate_address(Domain="vpc")["AllocationId"]
    ec2.create_tags(Resources=[mine], Tags=ours)
    one = subject()
    assert used_by_others(needs.G, one) == 4 + 8
    assert used_by_others(needs.STANDARD, one) == 2
    assert used_by_others(needs.G_SPOT, one) == 0
    assert used_by_others(needs.ADDRESSES, one) == 1
    assert used_by_others(needs.VPCS, one) == 1  # the region's default VPC


def test_usage_is_read_to_the_last_page(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    """By script: moto returns hundreds on a page."""
    one = subject()
    ec2, running = answers(one, "ec2"), {"Filters": [{"Name": "instance-state-name", "Values": ["pending", "running"]}]}
    page = {
        "Reservations": [{"Instances": [{"InstanceType": "g5.xlarge", "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2}}]}]
    }
    ec2.add_response("describe_instances", {**page, "NextToken": "more"}, running)
    ec2.add_response("describe_instances", page, {**running, "NextToken": "more"})
    assert used_by_others(needs.G, one) == 2 * 4


def test_nat_gateways_count_in_the_fullest_zone(subject: Callable[..., Subject]) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    for index, (zone, gateways) in enumerate((("us-west-2a", 2), ("us-west-2b", 1))):
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{index}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for _ in range(gateways):
            address = ec2.allocate_address(Domain="vpc")["AllocationId"]
            ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)
    assert used_by_others(needs.NAT_GATEWAYS, subject()) == 2


def test_the_cluster_that_is_there_already_is_not_counted_twice(subject: Callable[..., Subject]) -> None:
    eks = boto3.client("eks", region_name=REGION)
    for name in ("triton-staging", "other"):
        eks.create_cluster(
            name=name, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": ["subnet-1"]}
        )
    assert used_by_others(needs.CLUSTERS, subject()) == 1


def test_node_groups_of_others_in_the_same_cluster_count(subject: Callable[..., Subject]) -> None:
    eks = boto3.client("eks", region_name=REGION)
    one, role = subject(IN_A_CLUSTER), "arn:aws:iam::123456789012:role/eks"
    cluster = one.settings.cluster_name
    eks.create_cluster(name=cluster, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    ours = {"project": "triton-eks", "environment": "staging"}
    for name, tags in (("theirs", {}), ("g5", ours)):
        eks.create_nodegroup(clusterName=cluster, nodegroupName=name, subnets=["subnet-1"], nodeRole=role, tags=tags)
    assert used_by_others(needs.NODE_GROUPS, one) == 1
    assert used_by_others(needs.NODE_GROUPS, subject()) == 0
