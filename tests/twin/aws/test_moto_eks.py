"""Node groups without capacity and degraded add-ons, in moto and in the handlers. On the engine: test_half_created.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto.autoscaling.responses import AutoScalingResponse
from moto.core import responses
from moto.core.utils import method_names_from_class
from moto.eks import urls
from moto.eks.models import EKSBackend
from moto.eks.responses import EKSResponse

from tests.twin.aws.world import ADDON, NODE_GROUP, World, kubernetes, network, node_group_inputs, roles
from twin.aws import faults, moto_eks, table
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HalfCreated, HandlerError

ZONE_A = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient m7i.large "
    "capacity in the Availability Zone you requested (us-west-2a). Launching EC2 instance failed."
)


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("create_nodegroup", "describe_nodegroup", "update_nodegroup_config"):
            patch.setattr(EKSBackend, name, getattr(EKSBackend, name))
        patch.setattr(AutoScalingResponse, "describe_scaling_activities", AutoScalingResponse.describe_scaling_activities)
        for name in ("list_addons", "describe_addon"):
            patch.setattr(EKSResponse, name, None, raising=False)
        patch.setattr(urls, "url_paths", dict(urls.url_paths))
        # Not the cached method list (tests/aws_environment.py): the class gets more methods here.
        patch.setattr(responses, "method_names_from_class", method_names_from_class)
        moto_eks.install()
        world = World(clients)
        network(world)
        roles(world)
        kubernetes(world)
        yield world


@pytest.fixture(autouse=True)
def well_again(world: World) -> Iterator[None]:
    yield
    world.clients("ssm").delete_parameters(Names=[faults.WITHOUT_CAPACITY, faults.DEGRADED_ADD_ONS])


def fault(world: World, name: str, value: str) -> None:
    world.clients("ssm").put_parameter(Name=name, Value=value, Type="String", Overwrite=True)


def group(world: World, name: str) -> dict[str, Any]:
    described: dict[str, Any] = world.clients("eks").describe_nodegroup(clusterName="c", nodegroupName=name)["nodegroup"]
    return described


def failed(world: World, name: str, **changes: Any) -> HalfCreated:
    with pytest.raises(HalfCreated) as raised:
        world.make(NODE_GROUP, name, **node_group_inputs(world, nodeGroupName=name, **changes))
    return raised.value


def test_eks_finds_out_later_and_only_the_scaling_activity_says_why_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(world, faults.WITHOUT_CAPACITY, "m7i.large")
    seen = []

    def look(_seconds: float) -> None:
        found = group(world, "early")
        scaling = found["resources"]["autoScalingGroups"][0]["name"]
        activities = world.clients("autoscaling").describe_scaling_activities(AutoScalingGroupName=scaling)["Activities"]
        seen.append((found["status"], found["health"]["issues"], [one["StatusMessage"] for one in activities]))
        monkeypatch.setattr(moto_eks, "FAILS_AFTER_SECONDS", 0.0)

    monkeypatch.setattr("twin.aws.eks.node_groups.time.sleep", look)
    monkeypatch.setattr(moto_eks, "FAILS_AFTER_SECONDS", 3600.0)
    error = failed(world, "early")
    assert seen == [("CREATING", [], [ZONE_A])]
    scaling = group(world, "early")["resources"]["autoScalingGroups"][0]["name"]
    assert str(error) == (
        "waiting for EKS Node Group (c:early) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: "
        f"{scaling}: AsgInstanceLaunchFailures: {ZONE_A}"
    )
    assert (error.id, error.outputs.get("resources"), error.outputs.get("arn")) == ("c:early", None, None)


def test_a_failed_group_is_neither_updated_nor_tried_again_and_can_be_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moto_eks, "FAILS_AFTER_SECONDS", 0.0)
    fault(world, faults.WITHOUT_CAPACITY, "m7i.large/on-demand")
    error = failed(world, "late")
    world.clients("ssm").delete_parameter(Name=faults.WITHOUT_CAPACITY)
    handler = table.handler(NODE_GROUP)
    inputs = handler.check(node_group_inputs(world, nodeGroupName="late"))
    same = handler.update(world.clients, error.id, dict(error.outputs), inputs)
    assert (same["status"], group(world, "late")["status"]) == ("CREATE_FAILED", "CREATE_FAILED")
    larger = handler.check({**inputs, "scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 9}})
    with pytest.raises(Exception, match="Nodegroup cannot be updated as it is currently not in Active State"):
        handler.update(world.clients, error.id, dict(error.outputs), larger)
    handler.delete(world.clients, error.id, dict(error.outputs))
    assert "late" not in world.clients("eks").list_nodegroups(clusterName="c")["nodegroups"]


@pytest.mark.parametrize(
    ("without", "changes"),
    [
        ("m7i.large/spot", {}),
        ("m7i.large/us-west-2a", {}),
        ("m7i.xlarge", {}),
        ("m7i.large", {"instanceTypes": ["m7i.large", "m6i.large"]}),
        ("m7i.large", {"scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 3}}),
    ],
    ids=["of spot", "in one zone", "another type", "another type beside it", "none wanted"],
)
def test_a_group_that_finds_a_machine_or_wants_none_is_active(world: World, without: str, changes: dict[str, Any]) -> None:
    fault(world, faults.WITHOUT_CAPACITY, without)
    made = world.make(NODE_GROUP, "active", **node_group_inputs(world, nodeGroupName="active", **changes))
    assert made.outputs["status"] == "ACTIVE"
    world.delete("active")


def test_a_spot_group_fails_in_the_words_of_spot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moto_eks, "FAILS_AFTER_SECONDS", 0.0)
    fault(world, faults.WITHOUT_CAPACITY, "m7i.large/us-west-2a, m7i.large/us-west-2b")
    error = failed(world, "spot", capacityType="SPOT")
    assert "Could not launch Spot Instances. UnfulfillableCapacity - " in str(error)


def test_an_add_on_is_degraded_while_its_fault_lasts(world: World) -> None:
    eks, version = world.clients("eks"), "v1.3.10-eksbuild.2"
    fault(world, faults.DEGRADED_ADD_ONS, "eks-pod-identity-agent")
    with pytest.raises(HalfCreated, match=r"\(c:eks-pod-identity-agent\) create: timeout while waiting for state") as raised:
        world.make(ADDON, "agent", clusterName="c", addonName="eks-pod-identity-agent", addonVersion=version)
    assert eks.list_addons(clusterName="c")["addons"] == ["eks-pod-identity-agent", "vpc-cni"]
    found = eks.describe_addon(clusterName="c", addonName="eks-pod-identity-agent")["addon"]
    assert (found["status"], [one["code"] for one in found["health"]["issues"]]) == (
        "DEGRADED",
        ["InsufficientNumberOfReplicas"],
    )
    read = table.handler(ADDON).read(world.clients, raised.value.id, dict(raised.value.outputs))
    assert read is not None and read["arn"] == found["addonArn"]
    world.clients("ssm").delete_parameter(Name=faults.DEGRADED_ADD_ONS)
    assert eks.describe_addon(clusterName="c", addonName="eks-pod-identity-agent")["addon"]["status"] == "ACTIVE"
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_addon(clusterName="c", addonName="coredns")


def test_a_second_add_on_of_one_name_is_refused(world: World) -> None:
    with pytest.raises(HandlerError, match=r"^c:vpc-cni: ResourceInUseException: Addon already exists\.$"):
        world.make(ADDON, "again", clusterName="c", addonName="vpc-cni", addonVersion="v1.20.4-eksbuild.2")
