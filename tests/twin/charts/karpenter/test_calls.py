"""AWS's IAM checks for each Karpenter call, evaluated against the policy from the program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from infra.platform.karpenter_policy import controller_policy
from spec.iam_policy import Statement
from tests.infra.access import ACCOUNT
from twin.aws.iam.authorization import Call, refusals
from twin.charts.karpenter.calls import Request, UnknownCall, calls

CLUSTER, REGION = "triton-staging", "us-west-2"
ARN = f"arn:aws:{{}}:{REGION}:123456789012:{{}}".format
NODE_ROLE = "arn:aws:iam::123456789012:role/nodes"
QUEUE = "triton-staging-interruptions"
POLICY: list[Statement] = json.loads(controller_policy(ACCOUNT, CLUSTER, NODE_ROLE, ARN("sqs", QUEUE)))["Statement"]
TAGS = {
    "Name": "triton-staging-g5",
    "eks:eks-cluster-name": CLUSTER,
    "karpenter.sh/nodepool": "g5",
    f"kubernetes.io/cluster/{CLUSTER}": "owned",
}
TEMPLATE = {
    "ImageId": "ami-1",
    "IamInstanceProfile": {"Name": "nodes"},
    "NetworkInterfaces": [{"Groups": ["sg-1"]}],
    "TagSpecifications": [
        {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()]}
        for kind in ("network-interface", "spot-instances-request")
    ],
}


class Account:
    """An account with a launch template and an instance of Karpenter, and another owner's instance."""

    partition, region, id = "aws", REGION, "123456789012"

    def tags(self, resource: str) -> Mapping[str, str]:
        return TAGS if resource in ("lt-1", "i-1") else {}

    def launch_template(self, name: str) -> tuple[str, Mapping[str, Any]]:
        return ("lt-1", TEMPLATE) if name in ("lt-1", "karpenter") else ("", {})

    def role_of(self, instance_profile: str) -> str | None:
        return NODE_ROLE if instance_profile == "nodes" else None


def tagged(*kinds: str, **more: str) -> dict[str, str]:
    """Return the parameters that set these tags."""
    found = {}
    for number, kind in enumerate(kinds, 1):
        found[f"TagSpecification.{number}.ResourceType"] = kind
        for at, (key, value) in enumerate({**TAGS, **more}.items(), 1):
            found[f"TagSpecification.{number}.Tag.{at}.Key"] = key
            found[f"TagSpecification.{number}.Tag.{at}.Value"] = value
    return found


FLEET = {
    "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName": "karpenter",
    "LaunchTemplateConfigs.1.Overrides.1.SubnetId": "subnet-1",
    "LaunchTemplateConfigs.1.Overrides.1.ImageId": "ami-2",
    "TargetCapacitySpecification.DefaultTargetCapacityType": "on-demand",
    **tagged("fleet", "instance", "volume"),
}
NAMED = {
    "ResourceId.1": "i-1",
    "Tag.1.Key": "Name",
    "Tag.1.Value": "node",
    "Tag.2.Key": "karpenter.sh/nodeclaim",
    "Tag.2.Value": "g5-x",
}
MADE: dict[str, Request] = {
    "a fleet": Request("ec2", "CreateFleet", FLEET),
    "a launch template": Request("ec2", "CreateLaunchTemplate", tagged("launch-template")),
    "one that is not wanted": Request("ec2", "DeleteLaunchTemplate", {"LaunchTemplateName": "karpenter"}),
    "a name": Request("ec2", "CreateTags", NAMED),
    "an end": Request("ec2", "TerminateInstances", {"InstanceId.1": "i-1"}),
    "a trial": Request(
        "ec2",
        "RunInstances",
        {
            "LaunchTemplate.LaunchTemplateName": "karpenter",
            "NetworkInterface.1.SubnetId": "subnet-1",
            **tagged("instance", "volume", "network-interface"),
        },
    ),
    "a look": Request("ec2", "DescribeInstances", {}),
    "an image": Request("ssm", "GetParameter", {"Name": "/aws/service/eks/optimized-ami/1.35/x/image_id"}),
    "a profile": Request("iam", "GetInstanceProfile", {"InstanceProfileName": "nodes"}),
    "the cluster": Request("eks", "DescribeCluster", {"name": CLUSTER}),
    "its queue": Request("sqs", "GetQueueUrl", {"QueueName": QUEUE}),
    "a notice": Request("sqs", "ReceiveMessage", {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/123456789012/{QUEUE}"}),
}


@pytest.mark.parametrize("request_", MADE.values(), ids=MADE)
def test_karpenter_may_do_what_it_does(request_: Request) -> None:
    assert list(refusals(POLICY, calls(request_, Account()))) == []


def test_a_launch_asks_for_everything_that_it_takes_and_makes() -> None:
    asked = {(call.action, call.resource) for call in calls(MADE["a fleet"], Account())}
    launched = {
        *(ARN("ec2", f"{kind}/*") for kind in ("instance", "volume", "network-interface")),
        *(ARN("ec2", one) for one in ("launch-template/lt-1", "subnet/subnet-1", "security-group/sg-1")),
        *(f"arn:aws:ec2:{REGION}::image/{image}" for image in ("ami-1", "ami-2")),
    }
    tagged_ones = [ARN("ec2", f"{kind}/*") for kind in ("fleet", "instance", "volume", "network-interface")]
    assert asked == {
        *((action, resource) for action in ("ec2:CreateFleet", "ec2:RunInstances") for resource in launched),
        ("ec2:CreateFleet", ARN("ec2", "fleet/*")),
        *(("ec2:CreateTags", resource) for resource in tagged_ones),
        ("iam:PassRole", NODE_ROLE),
    }


def test_spot_capacity_is_asked_for_apart() -> None:
    spot = {**FLEET, "TargetCapacitySpecification.DefaultTargetCapacityType": "spot"}
    asked, without = (list(calls(Request("ec2", "CreateFleet", one), Account())) for one in (spot, FLEET))
    more = {(call.action, call.resource.rpartition(":")[2]) for call in asked if call not in without}
    assert more == {
        (f"ec2:{action}", "spot-instances-request/*") for action in ("CreateFleet", "RunInstances", "CreateTags")
    }
    assert list(refusals(POLICY, asked)) == []


REFUSED: dict[str, tuple[Request, str]] = {
    "another one's instance": (
        Request("ec2", "TerminateInstances", {"InstanceId.1": "i-2"}),
        f"StringEquals aws:ResourceTag/kubernetes.io/cluster/{CLUSTER} owned, and it is None",
    ),
    "another tag": (
        Request("ec2", "CreateTags", {"ResourceId.1": "i-1", "Tag.1.Key": "owner", "Tag.1.Value": "me"}),
        "ForAllValues:StringEquals aws:TagKeys",
    ),
    "a launch without the cluster's tag": (
        Request("ec2", "CreateLaunchTemplate", {}),
        f"StringEquals aws:RequestTag/kubernetes.io/cluster/{CLUSTER} owned, and it is None",
    ),
    "another queue": (Request("sqs", "GetQueueUrl", {"QueueName": "other"}), "HearOfInterruptions: another resource"),
    "a secret": (Request("ssm", "GetParameter", {"Name": "/prod/password"}), "FindImages: another resource"),
}


@pytest.mark.parametrize(("request_", "why"), REFUSED.values(), ids=REFUSED)
def test_and_nothing_else(request_: Request, why: str) -> None:
    found = list(refusals(POLICY, calls(request_, Account())))
    assert found and all(why in one for one in found), found


def test_a_call_that_nobody_knows_is_not_judged() -> None:
    with pytest.raises(UnknownCall, match="iam:CreateInstanceProfile"):
        list(calls(Request("iam", "CreateInstanceProfile", {}), Account()))


def test_the_tags_of_what_is_made_are_those_of_the_request_and_of_its_template() -> None:
    by_kind = {
        call.resource.rpartition(":")[2]: call.context
        for call in calls(MADE["a fleet"], Account())
        if isinstance(call, Call) and call.action == "ec2:CreateTags"
    }
    assert by_kind.keys() == {"fleet/*", "instance/*", "volume/*", "network-interface/*"}
    assert {context["aws:TagKeys"] for context in by_kind.values()} == {tuple(sorted(TAGS))}
