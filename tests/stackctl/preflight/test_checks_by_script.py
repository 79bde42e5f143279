"""Checks whose operations moto lacks, answered by botocore's Stubber.

EKS versions and add-on versions, the public parameters of the node images, capacity reservations. The Stubber checks
parameters and answers against the services' own models.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from spec.versions import KUBERNETES
from stackctl.preflight.checks import add_ons, ami_release, capacity_reservations, kubernetes_version
from stackctl.preflight.checks.check import Check, Finding, Status, Subject, findings
from tests.spec.stack_config import complaints

PINS = KUBERNETES["1.35"]
RESERVATION = "cr-0123456789abcdef0"
FOLDER = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"


def version(name: str, status: str = "STANDARD_SUPPORT") -> dict[str, Any]:
    return {"clusterVersion": name, "versionStatus": status, "endOfStandardSupportDate": datetime(2027, 3, 27, tzinfo=UTC)}


def test_a_version_with_standard_support_is_ok(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    answers(one, "eks").add_response(
        "describe_cluster_versions", {"clusterVersions": [version("1.34"), version("1.35")]}, {}
    )
    (finding,) = kubernetes_version.check(one)
    assert (finding.status, finding.message) == (Status.OK, "1.35 is offered, with standard support until 2027-03-27")


def test_a_version_that_eks_has_dropped_fails(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    stubber = answers(one, "eks")
    stubber.add_response("describe_cluster_versions", {"clusterVersions": [version("1.36")], "nextToken": "more"}, {})
    stubber.add_response("describe_cluster_versions", {"clusterVersions": [version("1.37")]}, {"nextToken": "more"})
    (finding,) = kubernetes_version.check(one)
    assert (finding.status, finding.message, finding.remedy) == (
        Status.FAIL,
        "EKS does not offer Kubernetes 1.35 in us-west-2",
        "set cluster.version to one of 1.36, 1.37 that spec/versions.py knows",
    )


def test_a_version_in_extended_support_is_a_warning(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    versions = {"clusterVersions": [version("1.35", "EXTENDED_SUPPORT")]}
    answers(one, "eks").add_response("describe_cluster_versions", versions, {})
    (finding,) = kubernetes_version.check(one)
    assert finding.status is Status.WARN


def offer(stubber: Stubber, addon: str, *versions: str) -> None:
    listed = [{"addonVersion": name} for name in versions]
    stubber.add_response(
        "describe_addon_versions",
        {"addons": [{"addonName": addon, "addonVersions": listed}] if versions else []},
        {"addonName": addon, "kubernetesVersion": "1.35"},
    )


OF_EVERY_STACK = (
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "metrics-server",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "aws-ebs-csi-driver",
)


def test_pins_that_eks_has_are_ok(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    stubber = answers(one, "eks")
    for addon in OF_EVERY_STACK:
        offer(stubber, addon, "v99.0.0-eksbuild.1", PINS.addons[addon])
    (finding,) = add_ons.check(one)
    assert finding.status is Status.OK
    assert finding.message == ", ".join(f"{addon} {PINS.addons[addon]}" for addon in OF_EVERY_STACK)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"models.access": "mountpoint"}, ["aws-mountpoint-s3-csi-driver"]),
        (
            {"models.access": "fsx-lustre", "models.fsx": {"storageGiB": 1200, "throughputMBsPerTiB": 125}},
            ["aws-fsx-csi-driver"],
        ),
        (
            {"logs": {"containers": {"retentionDays": 30}, "containerInsights": {"retentionDays": 7}}},
            ["amazon-cloudwatch-observability"],
        ),
    ],
)
def test_an_add_on_is_asked_for_when_the_stack_installs_it(
    subject: Callable[..., Subject], answers: Callable[..., Stubber], changes: dict[str, Any], more: list[str]
) -> None:
    one = subject(changes)
    stubber = answers(one, "eks")
    for addon in OF_EVERY_STACK:
        offer(stubber, addon, PINS.addons[addon])
    for addon in more:
        offer(stubber, addon)
    assert [finding.message for finding in add_ons.check(one)] == [
        f"{addon} {PINS.addons[addon]} is not on offer for Kubernetes 1.35: EKS has no version of it" for addon in more
    ]


def test_every_pin_that_eks_lacks_is_told_with_what_there_is(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    stubber = answers(one, "eks")
    for addon, pinned in ((name, PINS.addons[name]) for name in OF_EVERY_STACK):
        offers = {"coredns": ("v9.3.0-eksbuild.1", "v9.2.0-eksbuild.1"), "metrics-server": ()}.get(addon, (pinned,))
        offer(stubber, addon, *offers)
    assert [(finding.status, finding.message) for finding in add_ons.check(one)] == [
        (
            Status.FAIL,
            f"coredns {PINS.addons['coredns']} is not on offer for Kubernetes 1.35: EKS has v9.3.0-eksbuild.1, "
            "v9.2.0-eksbuild.1",
        ),
        (
            Status.FAIL,
            f"metrics-server {PINS.addons['metrics-server']} is not on offer for Kubernetes 1.35: EKS has no version of it",
        ),
    ]


def test_the_parameters_of_a_release_are_named_as_aws_names_them() -> None:
    """As Karpenter resolves `al2023@v20260728` (its AL2023 AMI family)."""
    assert ami_release.image_parameter("1.35", "1.35.6-20260728", "nvidia") == (
        f"{FOLDER}/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260728/image_id"
    )


def parameter(stubber: Stubber, name: str, value: str | None) -> None:
    if value is None:
        stubber.add_client_error("get_parameter", "ParameterNotFound", expected_params={"Name": name})
    else:
        stubber.add_response("get_parameter", {"Parameter": {"Value": value}}, {"Name": name})


def image(stubber: Stubber, id: str, state: str) -> None:
    stubber.add_response("describe_images", {"Images": [{"ImageId": id, "State": state}]}, {"ImageIds": [id]})


def names(variant: str) -> tuple[str, str]:
    return (
        ami_release.image_parameter("1.35", PINS.ami_release, variant),
        ami_release.recommended_parameter("1.35", variant),
    )


def test_both_images_of_the_release_are_looked_up(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = subject()
    ssm, ec2 = answers(one, "ssm"), answers(one, "ec2")
    for variant, id in (("standard", "ami-1"), ("nvidia", "ami-2")):
        parameter(ssm, names(variant)[0], id)
        image(ec2, id, "available")
    assert [(finding.status, finding.message) for finding in ami_release.check(one)] == [
        (Status.OK, f"standard: {PINS.ami_release} is ami-1"),
        (Status.OK, f"nvidia: {PINS.ami_release} is ami-2"),
    ]


def test_an_image_that_is_not_there_or_not_available_fails(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    one = subject()
    ssm, ec2 = answers(one, "ssm"), answers(one, "ec2")
    parameter(ssm, names("standard")[0], "ami-1")
    image(ec2, "ami-1", "deregistered")
    parameter(ssm, names("nvidia")[0], None)
    parameter(ssm, names("nvidia")[1], "1.35.9-20261101")
    assert [(finding.status, finding.message, finding.remedy) for finding in ami_release.check(one)] == [
        (
            Status.FAIL,
            f"the standard image of release {PINS.ami_release} (ami-1) is deregistered",
            'change ami_release in spec/versions.py, KUBERNETES["1.35"]',
        ),
        (
            Status.FAIL,
            f"there is no nvidia image of release {PINS.ami_release} in us-west-2",
            'change ami_release in spec/versions.py, KUBERNETES["1.35"]; AWS recommends 1.35.9-20261101',
        ),
    ]


RESERVED = {
    "gpu.pools[1].capacity": "reservation",
    "gpu.pools[1].reservationId": RESERVATION,
    "gpu.pools[1].zones": ["us-west-2a"],
}
OURS = [{"Key": "eks:cluster-name", "Value": "triton-staging"}]
STRANGERS = [{"Key": "eks:cluster-name", "Value": "triton-prod"}]


def reserved(subject: Callable[..., Subject], **of_the_pool: Any) -> Subject:
    return subject({**RESERVED, **{f"gpu.pools[1].{key}": value for key, value in of_the_pool.items()}})


def instance(tags: list[dict[str, str]], reservation: str = RESERVATION) -> dict[str, Any]:
    return {"InstanceType": "p4d.24xlarge", "CapacityReservationId": reservation, "Tags": tags}


def found(
    one: Subject,
    answers: Callable[..., Stubber],
    *running: dict[str, Any],
    room_matters: bool = True,
    **reservation: Any,
) -> Finding:
    """`room_matters`: the reservation fits, so its users are checked; `running` are the region's instances."""
    described = {
        "CapacityReservationId": RESERVATION,
        "State": "active",
        "InstanceType": "p4d.24xlarge",
        "AvailabilityZone": "us-west-2a",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 2,
        **reservation,
    }
    stubber = answers(one, "ec2")
    stubber.add_response(
        "describe_capacity_reservations",
        {"CapacityReservations": [described]},
        {"CapacityReservationIds": [RESERVATION]},
    )
    if room_matters:
        only = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        stubber.add_response("describe_instances", {"Reservations": [{"Instances": list(running)}]}, {"Filters": only})
    (finding,) = capacity_reservations.check(one)
    return finding


def test_without_reservations_there_is_nothing_to_ask(subject: Callable[..., Subject]) -> None:
    (finding,) = capacity_reservations.check(subject())
    assert (finding.status, finding.message) == (Status.OK, "no pool names one")


def test_an_active_reservation_of_the_pools_type_and_zone_is_ok(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    finding = found(reserved(subject), answers)
    assert (finding.status, finding.message) == (
        Status.OK,
        f"pool p4d: {RESERVATION}: 2 of 2 p4d.24xlarge free in us-west-2a",
    )


OTHERS_HAVE_IT = "end what others run in it, reserve more, or give the pool another capacity"


@pytest.mark.parametrize(
    ("running", "free", "desired", "status", "message"),
    [
        ((), 0, 1, Status.FAIL, "0 of 2 p4d.24xlarge free in us-west-2a, and the pool starts with 1"),
        (
            (instance(STRANGERS), instance([])),
            0,
            1,
            Status.FAIL,
            "0 of 2 p4d.24xlarge free in us-west-2a, and the pool starts with 1",
        ),
        ((), 0, 0, Status.WARN, "0 of 2 p4d.24xlarge free in us-west-2a, and the pool may have 2"),
        ((), 1, 1, Status.WARN, "1 of 2 p4d.24xlarge free in us-west-2a, and the pool may have 2"),
        (
            (instance(OURS), instance(STRANGERS)),
            0,
            1,
            Status.WARN,
            "0 of 2 p4d.24xlarge free in us-west-2a, 1 taken by this stack, and the pool may have 2",
        ),
        (
            (instance(OURS, "cr-0fedcba9876543210"),),
            0,
            1,
            Status.FAIL,
            "0 of 2 p4d.24xlarge free in us-west-2a, and the pool starts with 1",
        ),
        ((instance(OURS), instance(OURS)), 0, 2, Status.OK, "0 of 2 p4d.24xlarge free in us-west-2a, 2 taken by this stack"),
    ],
)
def test_what_others_have_of_a_reservation_is_not_the_pools(
    subject: Callable[..., Subject],
    answers: Callable[..., Stubber],
    running: tuple[dict[str, Any], ...],
    free: int,
    desired: int,
    status: Status,
    message: str,
) -> None:
    one = reserved(subject, desired=desired)
    finding = found(one, answers, *running, AvailableInstanceCount=free)
    assert (finding.status, finding.message) == (status, f"pool p4d: {RESERVATION}: {message}")
    assert finding.remedy == ("" if status is Status.OK else OTHERS_HAVE_IT)


def test_a_smaller_reservation_than_the_pool_may_use_is_told(
    subject: Callable[..., Subject], answers: Callable[..., Stubber]
) -> None:
    finding = found(reserved(subject), answers, TotalInstanceCount=1, AvailableInstanceCount=1)
    assert (finding.status, finding.message, finding.remedy) == (
        Status.WARN,
        f"pool p4d: {RESERVATION}: 1 of 1 p4d.24xlarge free in us-west-2a, and the pool may have 2",
        "set the pool's max to 1",
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"network.zones": 3}, "list the zones by name in network.zones"),
        ({"network.zones": 3, "gpu.pools[1].zones": None}, "a reservation is in one zone; give exactly that zone"),
    ],
)
def test_a_reservation_cannot_be_used_in_zones_that_the_program_chooses(changes: dict[str, Any], complaint: str) -> None:
    """So the check compares one zone, independent of AWS's offer."""
    told = complaints({**RESERVED, **changes})
    assert any(complaint in line for line in told), told


@pytest.mark.parametrize(
    ("reservation", "status", "message"),
    [
        ({"State": "expired"}, Status.FAIL, "is expired"),
        ({"InstanceType": "p4de.24xlarge"}, Status.FAIL, "is for p4de.24xlarge"),
        ({"AvailabilityZone": "us-west-2b"}, Status.FAIL, "is in us-west-2b, where the pool has no subnet"),
        ({"ReservationType": "capacity-block"}, Status.FAIL, "is a Capacity Block"),
        (
            {"State": "scheduled", "StartDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC)},
            Status.WARN,
            "is scheduled and begins 2026-12-01 11:30 UTC",
        ),
    ],
)
def test_a_reservation_that_the_pool_cannot_use_is_told(
    subject: Callable[..., Subject],
    answers: Callable[..., Stubber],
    reservation: dict[str, Any],
    status: Status,
    message: str,
) -> None:
    finding = found(reserved(subject), answers, room_matters=False, **reservation)
    assert (finding.status, finding.message) == (status, f"pool p4d: {RESERVATION} {message}")
    assert finding.remedy


def test_a_reservation_that_does_not_exist_fails(subject: Callable[..., Subject], answers: Callable[..., Stubber]) -> None:
    one = reserved(subject)
    answers(one, "ec2").add_client_error("describe_capacity_reservations", "InvalidCapacityReservationId.NotFound")
    (finding,) = capacity_reservations.check(one)
    assert (finding.status, finding.message) == (
        Status.FAIL,
        f"pool p4d: {RESERVATION} does not exist in us-west-2, or is not shared with account 123456789012",
    )


@pytest.mark.parametrize(
    ("module", "service", "operation", "action"),
    [
        (kubernetes_version, "eks", "describe_cluster_versions", "eks:DescribeClusterVersions"),
        (add_ons, "eks", "describe_addon_versions", "eks:DescribeAddonVersions"),
        (ami_release, "ssm", "get_parameter", "ssm:GetParameter"),
    ],
)
def test_a_missing_permission_is_named(
    subject: Callable[..., Subject],
    answers: Callable[..., Stubber],
    module: Any,
    service: str,
    operation: str,
    action: str,
) -> None:
    one = subject()
    answers(one, service).add_client_error(operation, "AccessDeniedException")
    (finding,) = findings(Check("x", module.check), one)
    assert (finding.status, finding.message, finding.remedy) == (
        Status.UNKNOWN,
        f"needs {action}",
        f"give the credentials {action}: docs/preflight.md has the whole policy",
    )


@pytest.mark.parametrize("state", ["scheduled", "pending", "payment-pending"])
def test_a_block_that_has_not_begun_fails_for_a_pool_that_starts_with_a_node(
    subject: Callable[..., Subject], answers: Callable[..., Stubber], state: str
) -> None:
    one = reserved(subject, capacity="capacity-block", min=0, desired=1)
    block = {"ReservationType": "capacity-block", "State": state, "StartDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC)}
    finding = found(one, answers, room_matters=False, **block)
    assert (finding.status, finding.message, finding.remedy) == (
        Status.FAIL,
        f"pool p4d: {RESERVATION} is {state} and begins 2026-12-01 11:30 UTC, and the pool starts with 1; its node group "
        "would end in CREATE_FAILED",
        "set the pool's min and desired to 0 until then, or run `pulumi up` after that",
    )
