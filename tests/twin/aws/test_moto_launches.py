"""EKS images, and types without capacity, in moto."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.ec2.models.instances import Instance
from moto.ec2.responses.fleets import Fleets
from moto.ssm.models import SimpleSystemManagerBackend

from twin.aws import moto_launches
from twin.aws.faults import WITHOUT_CAPACITY

REGION = "us-west-2"
IMAGE = "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260728"
PARAMETER = f"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/{IMAGE}/image_id"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(SimpleSystemManagerBackend, "get_parameter", moto_launches.get_parameter)
    monkeypatch.setattr(Fleets, "create_fleet", moto_launches.create_fleet)
    monkeypatch.setattr(Instance, "terminate", moto_launches.terminate)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    session = boto3.Session("test", "test", region_name=REGION)
    with mock_aws():
        yield session.client


def launch(aws: Any, *types: str, kind: str = "on-demand") -> dict[str, Any]:
    """Return the answer for a fleet of one instance, of the first available type."""
    ec2 = aws("ec2")
    image = aws("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="nodes", Description="of nodes", VpcId=vpc)["GroupId"]
    data = {"ImageId": image, "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group]}]}
    ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    overrides = [{"InstanceType": type, "SubnetId": subnet, "AvailabilityZone": f"{REGION}a"} for type in types]
    template = {"LaunchTemplateName": "nodes", "Version": "$Latest"}
    answer: dict[str, Any] = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": kind},
        SpotOptions={"AllocationStrategy": "price-capacity-optimized"} if kind == "spot" else {},
    )
    return answer


def instances(aws: Any) -> list[dict[str, Any]]:
    return [one for found in aws("ec2").describe_instances()["Reservations"] for one in found["Instances"]]


def test_an_image_of_eks_is_there_as_soon_as_its_parameter_is_read_and_is_the_same_again(aws: Any) -> None:
    ids = {aws("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"] for _ in range(2)}
    (image,) = aws("ec2").describe_images(ImageIds=[*ids])["Images"]
    assert (image["Name"], image["Architecture"], image["State"]) == (IMAGE, "x86_64", "available")


@pytest.mark.parametrize("name", [PARAMETER.replace("x86_64/nvidia", "arm64/neuron"), "/aws/service/eks/other"])
def test_other_public_parameters_are_as_moto_has_them(aws: Any, name: str) -> None:
    with pytest.raises(aws("ssm").exceptions.ParameterNotFound):
        aws("ssm").get_parameter(Name=name)


def test_an_instance_has_the_groups_of_its_template_and_the_tags_that_ec2_gives(aws: Any) -> None:
    answer = launch(aws, "g5.xlarge")
    (instance,) = instances(aws)
    assert [group["GroupName"] for group in instance["SecurityGroups"]] == ["nodes"]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags["aws:ec2:fleet-id"] == answer["FleetId"]
    assert tags["aws:ec2launchtemplate:id"].startswith("lt-") and tags["aws:ec2launchtemplate:version"] == "1"
    assert answer.get("Errors", []) == []


@pytest.mark.parametrize("without", ["g5.xlarge", "g5.xlarge/us-west-2a", "p5.48xlarge, g5.xlarge/on-demand"])
def test_of_a_type_without_capacity_there_is_none_and_the_next_one_is_launched(aws: Any, without: str) -> None:
    aws("ssm").put_parameter(Name=WITHOUT_CAPACITY, Value=without, Type="String")
    answer = launch(aws, "g5.xlarge", "g5.2xlarge")
    assert [one["InstanceType"] for one in answer["Instances"]] == ["g5.2xlarge"]
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "g5.xlarge"


@pytest.mark.parametrize("without", ["g5.xlarge/us-west-2b", "g5.xlarge/spot", "g5.2xlarge"])
def test_what_is_missing_elsewhere_or_otherwise_is_there(aws: Any, without: str) -> None:
    aws("ssm").put_parameter(Name=WITHOUT_CAPACITY, Value=without, Type="String")
    assert [one["InstanceType"] for one in launch(aws, "g5.xlarge")["Instances"]] == ["g5.xlarge"]


def test_without_any_capacity_nothing_is_launched_and_no_error_raised(aws: Any) -> None:
    aws("ssm").put_parameter(Name=WITHOUT_CAPACITY, Value="g5.xlarge/spot", Type="String")
    answer = launch(aws, "g5.xlarge", kind="spot")
    assert (answer.get("Instances", []), len(answer["Errors"]), instances(aws)) == ([], 1, [])


def test_an_ended_instance_leaves_no_interface_in_its_subnet(aws: Any) -> None:
    launch(aws, "g5.xlarge")
    (instance,) = instances(aws)
    ec2, own = aws("ec2"), [{"Name": "subnet-id", "Values": [instance["SubnetId"]]}]
    assert len(ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"]) == 1
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    assert ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"] == []
