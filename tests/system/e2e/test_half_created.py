"""A create fails after AWS has returned the id: the next `up` does not repair it, and stackctl names the repair.

The engine is Pulumi's. The aws provider's behaviour is from terraform-provider-aws (internal/service/eks/node_group.go,
addon.go: `SetId`, then the wait) and pulumi-terraform-bridge: the error is an initialization error with the id.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from spec.settings import Settings
from stackctl import eks_health
from stackctl.account.read_only import Readers
from stackctl.first_inference.command import NotServing, require_nothing_failed
from tests.spec.stack_config import settings
from tests.system.e2e import account
from twin.aws.faults import DEGRADED_ADD_ONS, WITHOUT_CAPACITY
from twin.engine.engine import Engine, EngineError
from twin.host.home import TwinHome
from twin.services import scratch

STACK = "staging"
CLUSTER = "triton-staging"
UP = ["up", "--yes", "--skip-preview", "--non-interactive"]
GROUP, ADD_ON = "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
CAUSE = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient g5.xlarge "
    "capacity in the Availability Zone you requested (us-west-2a). Launching EC2 instance failed."
)
PROGRAM = """\
import json

import pulumi
import pulumi_aws as aws

config = pulumi.Config()


def role(name, service, *policies):
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    made = aws.iam.Role(name, assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    return made, [
        aws.iam.RolePolicyAttachment(policy, role=made.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}")
        for policy in policies
    ]


vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", enable_dns_hostnames=True, enable_dns_support=True)
subnets = [
    aws.ec2.Subnet(zone, vpc_id=vpc.id, cidr_block=f"10.0.{at}.0/24", availability_zone=f"us-west-2{zone}").id
    for at, zone in enumerate("ab")
]
eks_role, eks_granted = role("eks", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
node_role, granted = role("node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
cluster = aws.eks.Cluster(
    "cluster",
    name="triton-staging",
    version="1.35",
    role_arn=eks_role.arn,
    bootstrap_self_managed_addons=False,
    access_config={"authentication_mode": "API"},
    vpc_config={"subnet_ids": subnets},
    opts=pulumi.ResourceOptions(depends_on=eks_granted),
)
cni = aws.eks.Addon("cni", cluster_name=cluster.name, addon_name="vpc-cni", addon_version="v1.22.4-eksbuild.1")
agent = aws.eks.Addon(
    "agent", cluster_name=cluster.name, addon_name="eks-pod-identity-agent", addon_version="v1.3.10-eksbuild.2"
)
template = aws.ec2.LaunchTemplate("template")
group = aws.eks.NodeGroup(
    "group",
    cluster_name=cluster.name,
    node_role_arn=node_role.arn,
    subnet_ids=subnets,
    ami_type="AL2023_x86_64_NVIDIA",
    instance_types=["g5.xlarge"],
    labels={"triton-eks/pool": "g5"},
    launch_template={"id": template.id, "version": "1"},
    scaling_config={"min_size": 1, "desired_size": 1, "max_size": config.require_int("max")},
    opts=pulumi.ResourceOptions(depends_on=[*granted, cni]),
)
aws.autoscaling.Tag(
    "tag",
    autoscaling_group_name=group.resources[0].autoscaling_groups[0].name,
    tag={"key": "pool", "value": "g5", "propagate_at_launch": False},
)
aws.eks.AccessEntry("entry", cluster_name=cluster.name, principal_arn=node_role.arn, type="EC2_LINUX")
"""


class Stack:
    """A program with a node group and add-ons, only on the twin's AWS."""

    def __init__(self, engine: Engine, aws_url: str) -> None:
        self.engine = engine
        self._ssm = account.client(aws_url, "ssm")

    def up(self, *arguments: str, most: int = 2) -> dict[str, int]:
        """Run `up`, and return its changes by operation. Raises EngineError."""
        config = {"aws:region": account.REGION, "triton-eks:max": most}
        (self.engine.program / f"stacks/Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": config}))
        self.engine.read(STACK, [*UP, *arguments])
        return dict(self.engine.last_update(STACK).changes)

    def fault(self, name: str, value: str) -> None:
        if value:
            self._ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
        else:
            self._ssm.delete_parameter(Name=name)

    def resource(self, type: str, name: str) -> dict[str, Any]:
        """Return a resource of the state; {} if it is not there."""
        found = (one for one in self.engine.resources(STACK) if one["type"] == type and one["urn"].endswith(f"::{name}"))
        return next(found, {})


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    program = tmp_path / "program"
    (program / "stacks").mkdir(parents=True)
    (program / "Pulumi.yaml").write_text("name: triton-eks\nstackConfigDir: stacks\nruntime: python\n")
    (program / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    with scratch.account(TwinHome(tmp_path / "twin"), "123456789012", Console(stderr=True)) as servers:
        engine = replace(servers.engine(), program=program)
        # As in a person's shell: stackctl runs `pulumi` and calls AWS with this environment, in the program's folder.
        for name, value in engine.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", os.pathsep.join([str(servers.programs["pulumi"].parent), os.environ["PATH"]]))
        monkeypatch.chdir(program)
        yield Stack(engine, servers.aws_url)


@pytest.fixture
def the_stack() -> Settings:
    return settings(stack=STACK)


def told(the_stack: Settings) -> list[str]:
    """Return the reports of stackctl about the stack."""
    readers = Readers(account.REGION, eks_health.OPERATIONS)
    return [eks_health.report(one, the_stack) for one in eks_health.ailments(readers, the_stack)]


def test_a_group_without_capacity_stays_failed_until_it_is_replaced(stack: Stack, the_stack: Settings) -> None:
    stack.fault(WITHOUT_CAPACITY, "g5.xlarge")
    with pytest.raises(EngineError, match=r"unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'") as failed:
        stack.up()
    assert f"AsgInstanceLaunchFailures: {CAUSE}" in str(failed.value)
    made = stack.resource(GROUP, "group")
    assert made["id"].startswith(f"{CLUSTER}:group-")
    assert "CREATE_FAILED" in made["initErrors"][0]
    assert stack.resource("aws:autoscaling/tag:Tag", "tag") == {}, "nothing that depends on it is created"

    command = f"`pulumi up --stack {STACK} --replace '{made['urn']}'`"
    name = made["id"].partition(":")[2]
    (said,) = told(the_stack)
    assert said.startswith(f"node group {name} is CREATE_FAILED: AsgInstanceLaunchFailures: {CAUSE}; last scaling activity ")
    assert said.endswith(
        f"Z: {CAUSE}; another `pulumi up` does not repair it: remove the cause, or change stacks/Pulumi.{STACK}.yaml, then "
        f"{command}"
    )
    with pytest.raises(NotServing) as stopped:
        require_nothing_failed(the_stack, Readers(account.REGION, eks_health.OPERATIONS))
    assert str(stopped.value).splitlines() == ["the stack is not whole:", f"  {said}"]

    stack.fault(WITHOUT_CAPACITY, "")
    # The trap: the next `up` succeeds, forgets the error, and sends no request to EKS.
    assert stack.up()["update"] == 1
    assert not stack.resource(GROUP, "group").get("initErrors")
    assert told(the_stack) == [said]
    with pytest.raises(EngineError, match="Nodegroup cannot be updated as it is currently not in Active State"):
        stack.up(most=3)

    replaced = stack.up("--replace", made["urn"])
    assert (replaced["replace"], replaced.get("update")) == (2, None), "the group, and the tag of its Auto Scaling group"
    assert told(the_stack) == []
    assert set(stack.up()) == {"same"}


def test_a_degraded_add_on_heals_by_itself_and_may_be_replaced(stack: Stack, the_stack: Settings) -> None:
    stack.fault(DEGRADED_ADD_ONS, "eks-pod-identity-agent")
    with pytest.raises(
        EngineError, match=r"waiting for EKS Add-On \(triton-staging:eks-pod-identity-agent\) create: timeout"
    ):
        stack.up()
    made = stack.resource(ADD_ON, "agent")
    assert made["id"] == f"{CLUSTER}:eks-pod-identity-agent"
    issue = "InsufficientNumberOfReplicas: The add-on is unhealthy because it doesn't have the desired number of replicas."
    assert told(the_stack) == [
        f"add-on eks-pod-identity-agent is DEGRADED: {issue}; EKS tries again by itself: remove the cause; if it stays so, "
        f"`pulumi up --stack {STACK} --replace '{made['urn']}'`"
    ]
    assert stack.up()["update"] == 1, "which does nothing"
    assert len(told(the_stack)) == 1

    stack.fault(DEGRADED_ADD_ONS, "")
    assert told(the_stack) == []
    assert set(stack.up()) == {"same"}


def test_an_access_entry_that_exists_is_refused_until_it_is_deleted(stack: Stack) -> None:
    """EKS returns no id, so the state has none, and every `up` reports the same error."""
    stack.up()
    entry = stack.resource("aws:eks/accessEntry:AccessEntry", "entry")
    stack.engine.read(STACK, ["state", "delete", entry["urn"], "--yes"])
    for _ in range(2):
        with pytest.raises(
            EngineError, match="ResourceInUseException: The specified access entry resource is already in use"
        ):
            stack.up()
        assert stack.resource("aws:eks/accessEntry:AccessEntry", "entry") == {}
