"""The engine of these tests can fail: it reports each kind of program mistake that it has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as k8s
import pytest

from tests.paths import ROOT
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording, StackFailed
from twin.aws.base.clients import Clients


@pytest.fixture
def up(clients: Clients) -> Callable[..., Recording]:
    def run_program(program: Callable[[], None], **options: Any) -> Recording:
        common: dict[str, Any] = {"project": "p", "stack": "s", "config": {}, "root": ROOT, "clients": clients}
        return run(program, **{**common, **options})

    return run_program


def test_options_are_recorded(up: Callable[..., Recording]) -> None:
    def program() -> None:
        vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", opts=pulumi.ResourceOptions(protect=True))
        options = pulumi.ResourceOptions(parent=vpc, depends_on=[vpc], ignore_changes=["tags"], retain_on_delete=True)
        aws.kms.Key("key", description="k", opts=options)
        pulumi.export("vpc", vpc.id)

    recording = up(program)
    vpc, key = recording.one("aws:ec2/vpc:Vpc"), recording.one("aws:kms/key:Key")
    assert vpc.protect is True
    assert (key.parent, key.depends_on) == (vpc.urn, (vpc.urn,))
    assert (key.ignore_changes, key.retain_on_delete) == (("tags",), True)
    assert key.urn == "urn:pulumi:s::p::aws:ec2/vpc:Vpc$aws:kms/key:Key::key"
    assert recording.exports == {"vpc": vpc.id}


def test_two_resources_of_one_urn(up: Callable[..., Recording]) -> None:
    def program() -> None:
        aws.ec2.Eip("address", domain="vpc")
        aws.ec2.Eip("address", domain="vpc")

    with pytest.raises(StackFailed) as caught:
        up(program)
    assert caught.value.failures == (
        ("aws:ec2/eip:Eip address", "a second resource with this URN; give one of them another name"),
    )


def test_a_type_without_a_handler(up: Callable[..., Recording]) -> None:
    def program() -> None:
        aws.sns.Topic("topic")

    with pytest.raises(StackFailed) as caught:
        up(program)
    assert caught.value.failures == (
        (
            "aws:sns/topic:Topic topic",
            "the twin has no handler for resource type aws:sns/topic:Topic: write a row in twin/aws/rows.py",
        ),
    )


def test_all_refused_resources_come_together_and_what_depends_on_them_is_not_tried(up: Callable[..., Recording]) -> None:
    def program() -> None:
        vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/8")
        aws.ec2.Subnet("subnet", vpc_id=vpc.id, cidr_block="10.0.0.0/24")
        aws.cloudwatch.LogGroup("logs", retention_in_days=33)

    with pytest.raises(StackFailed) as caught:
        up(program)
    assert sorted(resource for resource, _ in caught.value.failures) == [
        "aws:cloudwatch/logGroup:LogGroup logs",
        "aws:ec2/vpc:Vpc vpc",
    ]


def test_an_error_of_the_program_itself_comes_out_unchanged(up: Callable[..., Recording]) -> None:
    def program() -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        up(program)


def test_a_resource_made_inside_an_apply_is_missing_from_the_preview(up: Callable[..., Recording]) -> None:
    def program() -> None:
        address = aws.ec2.Eip("address", domain="vpc")
        address.public_ip.apply(lambda _ip: aws.kms.Key("hidden"))

    assert len(up(program, preview=True).registrations) == 1
    assert len(up(program).registrations) == 2


def test_a_preview_knows_what_does_not_depend_on_aws(up: Callable[..., Recording]) -> None:
    def program() -> None:
        vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16")
        pulumi.export("cidr", vpc.cidr_block)
        aws.ec2.Subnet("subnet", vpc_id=vpc.id, cidr_block="10.0.0.0/24")

    recording = up(program, preview=True)
    assert recording.exports == {"cidr": "10.0.0.0/16"}
    assert recording.one("aws:ec2/vpc:Vpc").id == ""
    assert recording.one("aws:ec2/subnet:Subnet").inputs["vpcId"] == "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def test_a_component_that_the_stand_in_does_not_have(up: Callable[..., Recording]) -> None:
    def program() -> None:
        eks.Cluster(
            "cluster",
            auto_mode=eks.AutoModeOptionsArgs(enabled=True),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(version="v1"),
            skip_default_security_groups=True,
            subnet_ids=["subnet-1"],
            use_default_vpc_cni=True,
        )
        eks.VpcCniAddon("addon", cluster_name="c")

    with pytest.raises(StackFailed) as caught:
        up(program)
    assert dict(caught.value.failures) == {
        "eks:index:Cluster cluster": "autoMode: the twin's eks.Cluster does not have it: extend twin/eks/arguments.py; "
        "skipDefaultNodeGroup: the twin's eks.Cluster has only true: extend twin/eks/arguments.py; "
        "serviceRole: the twin's eks.Cluster needs it: extend twin/eks/arguments.py",
        "eks:index:VpcCniAddon addon": "the test engine has no component eks:index:VpcCniAddon: "
        "extend tests/system/component/engine/monitor.py",
    }


def test_a_kubernetes_resource_of_the_ambient_kubeconfig_has_no_provider(up: Callable[..., Recording]) -> None:
    def program() -> None:
        k8s.core.v1.Namespace("n", metadata=k8s.meta.v1.ObjectMetaArgs(name="n"))

    assert up(program).one("kubernetes:core/v1:Namespace").provider == ""
