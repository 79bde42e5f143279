"""Dry runs of launches. moto answers correct requests; botocore's Stubber returns EC2's refusals.

The codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html. The sentence about the Free Tier is
from accounts on that plan (docs/facts/eks.md#accounts-on-the-free-plan).
"""

from __future__ import annotations

from collections.abc import Callable

import boto3
import pytest
from botocore.stub import Stubber

from spec.versions import KUBERNETES
from stackctl.preflight.checks import launch
from stackctl.preflight.checks.account_plan import UPGRADE
from stackctl.preflight.checks.ami_release import image_parameter
from stackctl.preflight.checks.check import Status, Subject

NOT_ELIGIBLE = (
    "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance types, run "
    "'describe-instance-types' with the filter 'free-tier-eligible=true'."
)
RELEASE = KUBERNETES["1.35"].ami_release


def images(ssm: Stubber, *variants: str) -> None:
    for variant in variants:
        name = image_parameter("1.35", RELEASE, variant)
        ssm.add_response("get_parameter", {"Parameter": {"Value": f"ami-{variant}"}}, {"Name": name})


def test_each_type_is_tried_with_its_image_in_a_zone_that_offers_it(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject({"gpu.pools[0].capacity": "spot"})
    images(answers(one, "ssm"), "standard", "nvidia")
    sent: list[dict[str, object]] = []
    one.readers("ec2").meta.events.register(
        "provide-client-params.ec2.RunInstances", lambda params, **_: sent.append(dict(params))
    )
    assert [(finding.status, finding.message.partition(":")[0]) for finding in launch.check(one)] == [
        (Status.OK, "m7i.xlarge, on-demand"),
        (Status.OK, "g5.xlarge, spot"),
        (Status.OK, "p4d.24xlarge, on-demand"),
    ]
    ec2 = boto3.client("ec2", region_name="us-west-2")
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in ec2.describe_subnets()["Subnets"]}
    assert [(each["InstanceType"], each["ImageId"], each.get("InstanceMarketOptions")) for each in sent] == [
        ("m7i.xlarge", "ami-standard", None),
        ("g5.xlarge", "ami-nvidia", {"MarketType": "spot"}),
        ("p4d.24xlarge", "ami-nvidia", None),
    ]
    assert {(each["DryRun"], each["MinCount"], each["MaxCount"]) for each in sent} == {(True, 1, 1)}
    assert {zones[str(each["SubnetId"])] for each in sent} == {"us-west-2a"}
    assert ec2.describe_instances()["Reservations"] == []


def test_a_capacity_block_is_not_tried_outside_of_its_time(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject(
        {
            "gpu.pools[1].capacity": "capacity-block",
            "gpu.pools[1].reservationId": "cr-0123456789abcdef0",
            "gpu.pools[1].zones": ["us-west-2a"],
        }
    )
    images(answers(one, "ssm"), "standard", "nvidia")
    assert [finding.message.partition(",")[0] for finding in launch.check(one)] == ["m7i.xlarge", "g5.xlarge"]


def test_without_an_image_or_a_subnet_a_launch_is_unknown(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    ec2 = boto3.client("ec2", region_name="us-west-2")
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    one = subject()
    ssm = answers(one, "ssm")
    images(ssm, "standard")
    ssm.add_client_error("get_parameter", "ParameterNotFound")
    assert [(finding.status, finding.message) for finding in launch.check(one)] == [
        (Status.UNKNOWN, "m7i.xlarge: no zone that offers it has a subnet for a dry run"),
        (Status.UNKNOWN, "g5.xlarge: there is no image for a dry run (check `node AMIs`)"),
        (Status.UNKNOWN, "p4d.24xlarge: there is no image for a dry run (check `node AMIs`)"),
    ]


@pytest.mark.parametrize(
    ("code", "message", "status", "remedy"),
    [
        ("InvalidParameterCombination", NOT_ELIGIBLE, Status.FAIL, UPGRADE),
        ("VcpuLimitExceeded", "You have requested more vCPU capacity", Status.FAIL, "raise the quota that the check"),
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", Status.FAIL, "raise the quota that the check"),
        (
            "PendingVerification",
            "Your account is currently being verified.",
            Status.FAIL,
            "wait for AWS's e-mail, at most 4",
        ),
        (
            "Blocked",
            "This account is currently blocked",
            Status.FAIL,
            "open a case at https://console.aws.amazon.com/support",
        ),
        ("OptInRequired", "You are not subscribed to this service.", Status.FAIL, "finish the sign-up (payment method"),
        ("Unsupported", "not supported in your requested zone", Status.FAIL, "choose another type or zone"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no role", Status.FAIL, "aws iam create-service-linked-role"),
        ("InsufficientInstanceCapacity", "no capacity now", Status.WARN, "try again later, or add types or zones"),
        ("UnauthorizedOperation", "You are not authorized", Status.UNKNOWN, "run preflight with the credentials that run"),
        ("InvalidSomething.New", "what EC2 says", Status.FAIL, "correct what EC2 names"),
    ],
)
def test_each_refusal_has_its_cause_and_remedy(
    subject: Callable[..., Subject],
    answers: Callable[..., Stubber],
    code: str,
    message: str,
    status: Status,
    remedy: str,
) -> None:
    one = subject()
    ec2 = answers(one, "ec2")
    parameters = {"DryRun": True, "MinCount": 1, "MaxCount": 1, "InstanceType": "m7i.large", "ImageId": "a", "SubnetId": "s"}
    ec2.add_client_error("run_instances", code, message, expected_params=parameters)
    finding = launch._launch(one.readers("ec2"), "m7i.large", "on-demand", "a", "s")
    assert (finding.status, finding.remedy[: len(remedy)]) == (status, remedy)
    assert finding.message.startswith("m7i.large, on-demand: ")
    assert message in finding.message or status is Status.UNKNOWN
