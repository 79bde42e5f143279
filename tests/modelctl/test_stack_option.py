"""`--stack NAME`: the commands read bucket, region and file from the stack file."""

from __future__ import annotations

import re
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from modelctl.release.pin import pinned
from modelctl.store.bucket import open_store
from tests.command import run
from tests.modelctl.stacks import wants, write_stack

STACK_BUCKET = "triton-models-dev-210987654321-eu-west-1"


@pytest.fixture
def bucket(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch):
    """Create the bucket of stack dev, in a region that the environment does not name; enter the checkout."""
    file = write_stack(tmp_path / "stacks", {"classify": wants()})
    text = re.sub("123456789012", "210987654321", file.read_text())
    file.write_text(re.sub("aws:region: .*", "aws:region: eu-west-1", text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    with mock_aws():
        client = boto3.client("s3", region_name="eu-west-1")
        client.create_bucket(Bucket=STACK_BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        yield client


def test_a_release_goes_into_the_bucket_of_the_stack_and_is_pinned_in_its_file(bucket) -> None:
    released = run("modelctl", "release", "models", "--stack", "dev")
    assert released.exit_code == 0, released.output
    first = released.stdout.split()[0]
    assert bucket.head_object(Bucket=STACK_BUCKET, Key=f"releases/{first}/manifest.json")
    file = Path("stacks/Pulumi.dev.yaml")
    assert pinned_id(file) == first

    Path("models/release.yaml").write_text("versions: {classify: 2}\n")
    second = run("modelctl", "release", "models", "--stack", "dev").stdout.split()[0]
    assert pinned_id(file) == second
    ids = {line.split()[0] for line in run("modelctl", "list", "--stack", "dev").stdout.splitlines()[1:]}
    assert ids == {first, second}
    assert run("modelctl", "show", first, "--stack", "dev").stdout.startswith(first)
    assert run("modelctl", "verify", first, "--stack", "dev").stdout.endswith("all as released\n")
    assert run("modelctl", "rollback", "--stack", "dev").exit_code == 0
    assert pinned_id(file) == first
    assert run("modelctl", "pin", second, "--stack", "dev").exit_code == 0
    assert pinned_id(file) == second


def test_a_request_is_signed_for_the_region_in_the_name_of_the_bucket(bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise S3 answers with a redirect, or the command requires AWS_REGION."""
    monkeypatch.delenv("AWS_REGION")
    assert open_store(STACK_BUCKET).client.meta.region_name == "eu-west-1"


def pinned_id(file: Path) -> str:
    release = pinned(file)
    assert release is not None
    return release.id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "Invalid value: give --stack NAME, or --bucket; "),
        (["list", "--stack", "nope"], "no stack file stacks/Pulumi.nope.yaml; there are: dev"),
        (["pin", "0" * 64, "--bucket", "b-b"], "Invalid value: name the stack file once: by --stack NAME, or by its path"),
        (
            ["pin", "0" * 64, "--stack", "dev", "--file", "stacks/Pulumi.dev.yaml"],
            "Invalid value: name the stack file once: by --stack NAME, or by its path",
        ),
        (
            ["release", "models", "--stack", "dev", "--pin", "stacks/Pulumi.dev.yaml"],
            "Invalid value: name the stack file once: by --stack NAME, or by its path",
        ),
        (
            ["release", "nowhere", "--bucket", "b-b"],
            "1 problem; nothing was released or changed:\nnowhere: no such directory",
        ),
    ],
)
def test_what_names_no_stack_or_two_is_refused_before_aws_is_called(
    arguments: list[str], message: str, bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", _refuse)
    done = run("modelctl", *arguments)
    assert done.exit_code != 0
    assert done.stderr.startswith(f"error: {message}"), done.stderr


def _refuse(*_: object) -> None:
    raise ClientError({"Error": {"Code": "Called", "Message": "AWS was called"}}, "any")
