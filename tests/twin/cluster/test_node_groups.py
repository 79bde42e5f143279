"""AwsReader against the moto in this process."""

import base64
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.aws.launch import user_data
from infra.aws.mig import MigLayout
from twin.cluster.node_groups import AwsReader
from twin.cluster.node_objects import Machine

REGION = "us-west-2"
ROLE = "arn:aws:iam::123456789012:role/eks"
NODE_CONFIG = "kind: NodeConfig\nspec: {instance: {localStorage: {strategy: RAID0}}}\n"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield lambda service, region=REGION: boto3.client(service, region_name=region)


@pytest.fixture
def subnets(aws: Any) -> list[str]:
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"]["SubnetId"]
        for i, zone in enumerate("ba")
    ]


def reader() -> AwsReader:
    return AwsReader(None, REGION)  # type: ignore[arg-type]  # in-process: no endpoint


def create(aws: Any, subnets: list[str], **group: Any) -> None:
    eks = aws("eks")
    eks.create_cluster(name="c", version="1.35", roleArn=ROLE, resourcesVpcConfig={"subnetIds": subnets})
    scaling = {"minSize": 0, "maxSize": 4, "desiredSize": 2}
    eks.create_nodegroup(clusterName="c", nodegroupName="g", subnets=subnets, nodeRole=ROLE, scalingConfig=scaling, **group)


def template(aws: Any, **data: Any) -> dict[str, str]:
    created = aws("ec2").create_launch_template(LaunchTemplateName="t", LaunchTemplateData=data)
    return {"id": created["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}


def test_no_cluster_no_groups(aws: Any) -> None:
    assert reader().node_groups() == []


def test_a_group_is_read_with_its_machine_zones_labels_and_taints(aws: Any, subnets: list[str]) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    create(aws, subnets, instanceTypes=["g5.xlarge", "g5.2xlarge"], labels={"a": "b"}, taints=[taint], capacityType="SPOT")
    [group] = reader().node_groups()
    assert group.machine == Machine("g5.xlarge", vcpus=4, memory_mib=16384, gpus=1, instance_store_gb=250)
    assert (group.cluster, group.name, group.desired) == ("c", "g", 2)
    assert list(group.zones) == ["us-west-2a", "us-west-2b"]
    assert group.labels == {"a": "b"}
    assert group.node_taints == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert (group.capacity_type, group.kubernetes_version) == ("SPOT", "1.35")


def test_the_disk_is_the_launch_templates(aws: Any, subnets: list[str]) -> None:
    volume = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}]
    create(aws, subnets, instanceTypes=["g5.xlarge"], launchTemplate=template(aws, BlockDeviceMappings=volume))
    assert reader().node_groups()[0].disk_gib == 200


def test_a_node_configuration_that_joins_the_instance_store_gives_its_size(aws: Any, subnets: list[str]) -> None:
    text = base64.b64encode(NODE_CONFIG.encode()).decode()
    volume = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}]
    reference = template(aws, UserData=text, BlockDeviceMappings=volume)
    create(aws, subnets, instanceTypes=["g5.xlarge"], launchTemplate=reference)
    assert reader().node_groups()[0].disk_gib == 232


def test_gpus_that_the_programs_own_boot_script_cuts_are_cut(aws: Any, subnets: list[str]) -> None:
    wanted = MigLayout("3g.20gb", 2)
    text = base64.b64encode(user_data(250, True, wanted).encode()).decode()
    create(aws, subnets, instanceTypes=["p4d.24xlarge"], launchTemplate=template(aws, UserData=text))
    assert reader().node_groups()[0].mig == (wanted.profile, wanted.instances)


def test_other_gpus_are_whole(aws: Any, subnets: list[str]) -> None:
    text = base64.b64encode(user_data(250, True).encode()).decode()
    create(aws, subnets, instanceTypes=["p4d.24xlarge"], launchTemplate=template(aws, UserData=text))
    assert reader().node_groups()[0].mig is None


def test_an_instance_type_in_the_launch_template_counts(aws: Any, subnets: list[str]) -> None:
    create(aws, subnets, launchTemplate=template(aws, InstanceType="p4d.24xlarge"))
    machine = reader().node_groups()[0].machine
    assert (machine.name, machine.gpus, machine.vcpus) == ("p4d.24xlarge", 8, 96)


def test_a_fresh_account_is_not_settled_until_it_is_acknowledged(aws: Any) -> None:
    assert reader().settled() is False
    aws("ssm", "us-east-1").put_parameter(Name="/twin/id", Value="x", Type="String")
    assert reader().settled() is True
