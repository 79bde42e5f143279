"""Preflight is read-only: other operations are refused before a request."""

from __future__ import annotations

import ast
import json
import re

import boto3
import pytest
from botocore.exceptions import ClientError

from stackctl.account.read_only import Operations, Readers, Refused, policy_document
from stackctl.orphans.operations import OPERATIONS as ORPHANS
from stackctl.preflight.operations import OPERATIONS
from tests.paths import ROOT


def test_an_operation_that_is_not_listed_is_refused_and_nothing_is_sent(account: str) -> None:
    boto3.client("ec2", region_name="us-west-2").create_vpc(CidrBlock="10.0.0.0/16")
    readers = Readers("us-west-2", OPERATIONS)
    (vpc,) = [vpc for vpc in readers("ec2").describe_vpcs()["Vpcs"] if not vpc["IsDefault"]]
    with pytest.raises(Refused, match=r"^ec2:DeleteVpc is not on the list of operations that only read; nothing was sent$"):
        readers("ec2").delete_vpc(VpcId=vpc["VpcId"])
    assert vpc["VpcId"] in [known["VpcId"] for known in readers("ec2").describe_vpcs()["Vpcs"]]


def test_a_launch_is_sent_as_a_dry_run_alone(account: str) -> None:
    ec2, image = Readers("us-west-2", OPERATIONS)("ec2"), {"ImageId": "ami-12345678", "MinCount": 1, "MaxCount": 1}
    for dry_run in ({}, {"DryRun": False}, {"DryRun": "true"}):
        with pytest.raises(Refused, match=r"^ec2:RunInstances is not on the list"):
            ec2.run_instances(**image, **dry_run)
    with pytest.raises(ClientError, match=r"DryRunOperation"):
        ec2.run_instances(**image, DryRun=True)
    with pytest.raises(Refused, match=r"^ec2:CreateVpc is not on the list"):
        ec2.create_vpc(CidrBlock="10.0.0.0/16", DryRun=True)
    assert ec2.describe_instances()["Reservations"] == []


def test_reading_that_is_not_listed_is_refused_too(account: str) -> None:
    readers = Readers("us-west-2", OPERATIONS)
    with pytest.raises(Refused):
        readers("ec2").describe_volumes()
    with pytest.raises(Refused):
        list(readers("ec2").get_paginator("describe_volumes").paginate())
    with pytest.raises(Refused):
        readers("ec2").get_waiter("volume_deleted").wait(VolumeIds=["vol-1"])
    with pytest.raises(Refused):
        readers("s3").generate_presigned_url("put_object", Params={"Bucket": "b", "Key": "k"})
    with pytest.raises(Refused):
        readers("secretsmanager").get_secret_value(SecretId="x")


@pytest.mark.parametrize("operations", [OPERATIONS, ORPHANS])
def test_every_listed_operation_exists_and_only_reads(operations: Operations) -> None:
    session = boto3.Session(region_name="us-west-2", aws_access_key_id="test", aws_secret_access_key="test")
    for service, known in operations.items():
        names = session.client(service).meta.service_model.operation_names
        assert set(known) <= set(names), service
        assert all(re.match(r"(Get|List|Describe|Head)[A-Z]", operation) for operation in known), service


ASKS_OTHERS = {
    "preflight/checks/charts.py": {"httpx", "urllib.parse"},  # chart repositories, which are not AWS
    "preflight/checks/runner.py": {"httpx"},  # GitHub, about a repository
    "preflight/checks/local_tools.py": {"subprocess"},  # programs of this machine print their versions
}


@pytest.mark.parametrize("package", ["preflight", "orphans"])
def test_nothing_in_the_package_has_another_way_to_aws(package: str) -> None:
    paths = sorted((ROOT / "stackctl" / package).rglob("*.py"))
    assert len(paths) > 5
    for path in paths:
        imported = [
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        ]
        others = {n for n in imported if n.split(".")[0] in {"boto3", "subprocess", "httpx", "requests", "urllib", "socket"}}
        assert others == ASKS_OTHERS.get(path.relative_to(ROOT / "stackctl").as_posix(), set()), path


@pytest.mark.parametrize(
    ("page", "sid", "operations"),
    [("preflight.md", "Preflight", OPERATIONS), ("teardown.md", "Orphans", ORPHANS)],
)
def test_the_documented_policy_is_the_one_that_is_needed(page: str, sid: str, operations: Operations) -> None:
    text = (ROOT / "docs" / page).read_text()
    (documented,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    assert json.loads(documented) == json.loads(policy_document(operations, sid))
