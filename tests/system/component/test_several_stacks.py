"""Several stacks in one account: of one environment, in one or several regions, and in each partition of AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import yaml

from infra import app
from spec.settings import Settings
from tests.paths import ROOT
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import previewed

_NAMES = {
    "aws:budgets/budget:Budget": "name",
    "aws:cloudwatch/eventRule:EventRule": "name",
    "aws:cloudwatch/logGroup:LogGroup": "name",
    "aws:cloudwatch/metricAlarm:MetricAlarm": "name",
    "aws:eks/cluster:Cluster": "name",
    "aws:iam/role:Role": "name",
    "aws:kms/alias:Alias": "name",
    "aws:s3/bucket:Bucket": "bucket",
    "aws:sqs/queue:Queue": "name",
}
"""Type -> the property that holds the program's name. The engine chooses other names, in part at random."""
_OF_THE_ACCOUNT = ("aws:budgets/", "aws:costexplorer/", "aws:iam/", "aws:s3/")
"""Their names are unique in an account over all regions; bucket names are unique in the world."""
_WORDS = {
    "ec2.amazonaws.com",
    "eks.amazonaws.com",
    "elasticloadbalancing.amazonaws.com",
    "k8s.amazonaws.com",
    "pods.eks.amazonaws.com",
    "sts.amazonaws.com",
    "vpc-flow-logs.amazonaws.com",
}
"""Service principals, an audience and label keys that are the same in every partition."""

Preview = Callable[..., Recording]


def _config(like: str, region: str, partition: str) -> dict[str, Any]:
    text = (ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text()
    text = text.replace("us-west-2", region).replace("arn:aws:", f"arn:{partition}:")
    if partition == "aws-cn":
        text = text.replace(".amazonaws.com/", ".amazonaws.com.cn/")
    config: dict[str, Any] = yaml.safe_load(text)["config"]
    if partition == "aws-us-gov":
        del config["triton-eks:cost"]
    return config


def _zones_of_the_file(settings: Settings, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    zones = settings.network.zones
    named = zones if isinstance(zones, tuple) else tuple(f"{settings.region}{letter}" for letter in "abcd"[:zones])
    return named, named


@pytest.fixture(scope="module")
def preview() -> Preview:
    """Return the preview of a stack like a shipped one; moto offers no instance types outside the usual regions."""

    @cache
    def of(stack: str, like: str, region: str = "us-west-2", partition: str = "aws") -> Recording:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app, "choose_zones", _zones_of_the_file)
            # moto keeps GovCloud's managed policies in the partition `aws`.
            patch.setattr(app, "require_boundary", lambda stack, file: None)
            return previewed(ROOT, stack, _config(like, region, partition))

    return of


def _named(recording: Recording) -> set[tuple[str, str]]:
    return {
        (item.type, item.inputs[_NAMES[item.type]])
        for item in recording.registrations
        if _NAMES.get(item.type) in item.inputs
    }


def _protected(recording: Recording) -> set[str]:
    return {item.name for item in recording.registrations if item.protect}


def test_everything_with_a_name_of_its_own_is_known_here(preview: Preview) -> None:
    """If a type gets a name and is missing from the table above, two stacks could use the same name unnoticed."""
    named = {
        item.type
        for item in preview("prod-us", "prod").registrations
        if item.type.startswith("aws:") and isinstance(item.inputs.get("name"), str)
    }
    assert named | {"aws:s3/bucket:Bucket"} == set(_NAMES)


@pytest.mark.parametrize(
    ("like", "one", "other", "region"),
    [
        ("prod", "prod-us", "prod-eu", "eu-central-1"),
        ("dev", "dev-a", "dev-b", "us-west-2"),
        ("dev", "dev", "dev-a", "us-west-2"),
    ],
)
def test_two_stacks_of_an_environment_have_no_name_in_common(
    preview: Preview, like: str, one: str, other: str, region: str
) -> None:
    first, second = _named(preview(one, like)), _named(preview(other, like, region))
    assert len(first) == len(second) >= 8
    assert first & second == set()


def test_a_stack_of_the_same_name_in_another_region_has_no_global_name_in_common(preview: Preview) -> None:
    """Two checkouts with separate states can each have one: regional names may be equal, account-wide names may not."""
    here, there = _named(preview("prod", "prod")), _named(preview("prod", "prod", "eu-central-1"))
    assert {type for type, _ in here & there if type.startswith(_OF_THE_ACCOUNT)} == set()
    assert ("aws:eks/cluster:Cluster", "triton-prod") in here & there


def test_a_stack_has_its_own_tag_and_configs_and_the_values_of_its_environment(preview: Preview) -> None:
    ours, prods = preview("eu-1", "prod"), preview("prod", "prod")
    assert ours.one("aws:eks/cluster:Cluster").inputs["tags"]["environment"] == "eu-1"
    chart, shipped = (
        next(
            item
            for item in one.registrations
            if item.type == "kubernetes:helm.sh/v4:Chart" and item.name == "triton-blue-chart"
        )
        for one in (ours, prods)
    )
    assert chart.inputs["valueYamlFiles"] == shipped.inputs["valueYamlFiles"]
    assert chart.inputs["values"]["release"]["configName"] == "eu-1"
    assert _protected(ours) == _protected(prods) != set()


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn"), ("cn-northwest-1", "aws-cn")],
)
def test_every_arn_and_host_is_of_the_partition(preview: Preview, region: str, partition: str) -> None:
    text = json.dumps([item.inputs for item in preview("prod", "prod", region, partition).registrations])
    assert set(re.findall(r"\barn:([a-z-]+):", text)) == {partition}
    suffix = ".amazonaws.com.cn" if partition == "aws-cn" else ".amazonaws.com"
    hosts = set(re.findall(r"[a-z0-9.-]+\.amazonaws\.com(?:\.cn)?", text)) - _WORDS
    assert {host for host in hosts if not host.endswith(f".{region}{suffix}")} == (
        {"ec2.amazonaws.com.cn"} if partition == "aws-cn" else set()
    )
    assert f"sqs.{region}{suffix}" in hosts and f"logs.{region}{suffix}" in hosts


def test_endpoints_in_china_have_the_names_that_ec2_lists_there(preview: Preview) -> None:
    found = preview("prod", "prod", "cn-north-1", "aws-cn").of_type("aws:ec2/vpcEndpoint:VpcEndpoint")
    assert {item.inputs["serviceName"] for item in found} == {
        *(f"cn.com.amazonaws.cn-north-1.{name}" for name in ("autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks")),
        *(f"cn.com.amazonaws.cn-north-1.{name}" for name in ("sqs", "sts")),
        *(f"com.amazonaws.cn-north-1.{name}" for name in ("eks-auth", "elasticloadbalancing", "logs")),
        *(f"com.amazonaws.cn-north-1.{name}" for name in ("s3", "ssm", "ssmmessages")),
    }
