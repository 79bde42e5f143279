"""`stackctl init`: a file that matches the account, its questions, and the result of a failure."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import ClientError

from spec.settings import load_stack_file
from stackctl import quotas
from stackctl.account.read_only import Readers
from stackctl.init import profile
from stackctl.init.command import owner_of
from tests.command import Ended, run
from tests.stackctl.init.conftest import Account, Pulumi

IMAGE = f"nvcr.io/nvidia/tritonserver@sha256:{'0123456789abcdef' * 4}"
GIVEN = ("--api-from", "198.51.100.7/32", "--cost-center", "trials", "--image", IMAGE)
FILE = Path("stacks/Pulumi.dev.yaml")


def init(*arguments: str) -> Ended:
    return run("stackctl", "init", "dev", *arguments)


def test_every_value_of_the_file_is_the_accounts_or_the_persons(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    done = init(*GIVEN)
    assert done.exit_code == 0, done.output
    made = load_stack_file(checkout / FILE)
    assert (made.region, made.allowed_account_ids, made.environment) == ("us-west-2", ("123456789012",), "dev")
    assert made.tags == {"owner": "moto", "cost-center": "trials"}
    assert [str(cidr) for cidr in made.cluster.public_access_cidrs] == ["198.51.100.7/32"]
    assert made.cluster.admin_role_arns == ()
    assert (made.triton.image, made.models.release) == (IMAGE, None)
    [pool] = made.gpu.pools
    assert (pool.instance_types, pool.capacity, pool.desired) == (("g5.xlarge", "g5.2xlarge"), "spot", 0)
    assert (made.node_autoscaler, made.nodes.system.min) == ("karpenter", 2)
    assert made.disposable
    assert [warning.path for warning in made.warnings] == ["allowDestroy", "models.release"]
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "Pulumi's state is where you are logged in (`pulumi whoami --verbose`): there is no bucket "
        "pulumi-state-123456789012-us-west-2",
        "stacks/Pulumi.dev.yaml is written:",
    ]
    assert lines[-1] == "next: python3 -m stackctl preflight dev"
    [price] = [line for line in lines if line.startswith("  price")]
    assert price.startswith("  price    about 0.9") and price.endswith(", from `pulumi up` to `stackctl destroy`")


def test_an_accounts_own_bucket_and_key_are_for_the_state(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    bucket = "pulumi-state-123456789012-us-west-2"
    boto3.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    kms = boto3.client("kms", region_name="us-west-2")
    kms.create_alias(AliasName="alias/pulumi-secrets", TargetKeyId=kms.create_key()["KeyMetadata"]["KeyId"])
    assert init(*GIVEN).exit_code == 0
    assert pulumi.calls == [
        f"login s3://{bucket}?region=us-west-2",
        "stack select dev --non-interactive",
        "stack init dev --secrets-provider awskms://alias/pulumi-secrets?region=us-west-2",
    ]


def test_a_bucket_of_somebody_elses_is_no_place_for_the_state(
    account: Account, checkout: Path, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []

    def foreign(params: dict[str, str], **_: object) -> None:
        asked.append(params)
        raise ClientError({"Error": {"Code": "403"}}, "HeadBucket")

    made = Readers.__call__

    def readers(self: Readers, service: str, region: str | None = None) -> object:
        client = made(self, service, region)
        if service == "s3":
            client.meta.events.register("provide-client-params.s3.HeadBucket", foreign)
        return client

    monkeypatch.setattr(Readers, "__call__", readers)
    assert init(*GIVEN).exit_code == 0
    assert asked == [{"Bucket": "pulumi-state-123456789012-us-west-2", "ExpectedBucketOwner": "123456789012"}]
    assert pulumi.calls[0] == "whoami --non-interactive"


def test_a_place_that_the_environment_names_is_for_the_state(
    account: Account, checkout: Path, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "postgres://pulumi:" + "hunter2@db.example.com:5432/state")
    done = init(*GIVEN)
    assert done.exit_code == 0, done.output
    said = "Pulumi's state is in postgres://(secret)@db.example.com:5432/state (PULUMI_BACKEND_URL)"
    assert done.stdout.splitlines()[0] == said
    assert pulumi.calls == ["stack select dev --non-interactive", "stack init dev"]


def test_without_a_place_for_the_state_nothing_is_written(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    pulumi.fails_at("whoami")
    done = init(*GIVEN)
    assert (done.exit_code, done.stderr) == (
        2,
        "error: there is no place for Pulumi's state: account 123456789012 has no bucket "
        "pulumi-state-123456789012-us-west-2, and Pulumi is logged in nowhere. `make state REGION=us-west-2` makes that "
        "bucket and a key, once per account and region; or log in to a place of yours (`pulumi login`). Then run the same "
        "command again\n",
    )
    assert not (checkout / FILE).exists()


def test_a_stack_that_pulumi_knows_gets_no_file_without_the_key_of_its_secrets(
    account: Account, checkout: Path, pulumi: Pulumi
) -> None:
    pulumi.fails_at()
    done = init(*GIVEN)
    assert (done.exit_code, done.stderr) == (
        2,
        "error: the stack dev is in Pulumi's state already, and stacks/Pulumi.dev.yaml, which has the key of its secrets, "
        "is not here: bring that file back, choose another name, or remove the stack with `pulumi stack rm dev`, which "
        "refuses one that has resources, and run the same command again\n",
    )
    assert pulumi.calls[-1] == "stack select dev --non-interactive"
    assert not (checkout / FILE).exists()


def test_a_stack_that_pulumi_cannot_make_is_told_with_what_is_left_to_do(
    account: Account, checkout: Path, pulumi: Pulumi
) -> None:
    pulumi.fails_at("stack select", "stack init")
    done = init(*GIVEN)
    assert (done.exit_code, done.stderr) == (
        2,
        "error: the stack file is written; `pulumi stack init dev`, which says above why it failed, is left to be done\n",
    )
    assert (checkout / FILE).exists()


def test_a_file_that_is_there_is_left_as_it_is(checkout: Path) -> None:
    (checkout / FILE).write_text("mine")
    done = init(*GIVEN)
    assert (done.exit_code, done.stderr) == (
        2,
        "error: stacks/Pulumi.dev.yaml is there already, and is left as it is; choose another name, edit it, or, after an "
        "init that was cut short, `pulumi stack rm dev` (it removes the file too; where Pulumi knows no such stack, remove "
        "the file yourself), and run the same command again\n",
    )
    assert (checkout / FILE).read_text() == "mine"


def test_a_name_that_no_bucket_can_have_is_told_first(checkout: Path) -> None:
    done = run("stackctl", "init", "My_Stack", *GIVEN)
    assert (done.exit_code, done.stderr.partition(";")[0]) == (2, "error: 'My_Stack' cannot be part of a bucket's name")


def test_a_stack_of_any_name_is_one_for_trying(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    done = run("stackctl", "init", "mine", *GIVEN)
    assert done.exit_code == 0, done.output
    made = load_stack_file(checkout / "stacks" / "Pulumi.mine.yaml")
    assert (made.environment, made.cluster_name) == ("dev", "triton-mine")


def test_outside_of_a_checkout_it_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = init(*GIVEN)
    assert done.stderr == "error: there is no directory stacks here; run this from the root of the checkout\n"


def test_without_a_terminal_everything_that_is_missing_is_told_at_once(
    account: Account, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setattr(sys, "stdin", (checkout / "nothing").open("w+"))
    done = init()
    assert (done.exit_code, done.stderr) == (
        2,
        "error: standard input is not a terminal, so `init` cannot ask; give\n"
        "  --region REGION (or AWS_REGION): the region of the stack\n"
        "  --api-from RANGE: the addresses that may reach the Kubernetes API, like 198.51.100.7/32\n"
        "  --cost-center NAME: the cost center in the tags of all resources\n",
    )


def test_a_person_is_asked_for_what_is_not_given_and_cannot_be_known(
    account: Account, checkout: Path, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["us-east-99", "us-west-2", "office", "198.51.100.7", "198.51.100.7/32", "#1", "", "trials"])
    asked: list[str] = []
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setattr("stackctl.init.command.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))

    def prompt(question: str) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("stackctl.init.command.typer.prompt", prompt)
    done = init("--image", IMAGE)
    assert done.exit_code == 0
    assert asked == [
        *["AWS region, like us-west-2"] * 2,
        *["Addresses that may reach the Kubernetes API, like 198.51.100.7/32"] * 3,
        *["Cost center, for the tags of all resources"] * 3,
    ]
    assert [line.partition("; ")[0] for line in done.stderr.splitlines()] == [
        "  'us-east-99' is no region of AWS that has EKS",
        "  'office' is no range of addresses",
        "  '198.51.100.7' has no prefix length",
        "  '#' is no character of a tag's value",
        "  it has 0 characters",
    ]
    made = load_stack_file(checkout / FILE)
    assert (made.region, made.tags["cost-center"]) == ("us-west-2", "trials")


def test_what_a_person_gives_wrong_is_told_before_anything_is_made(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    done = init(
        "--api-from", "10.0.0.0/8", "--api-from", "198.51.100.7", "--cost-center", "x" * 257, "--image", "triton:latest"
    )
    assert (done.exit_code, [line.partition("; ")[0] for line in done.stderr.splitlines()]) == (
        2,
        [
            "error: --cost-center: it has 257 characters",
            "--api-from: '198.51.100.7' has no prefix length",
            "--image: the tag 'latest' can be pushed again, so that a restart would serve something else",
            "--image: 'triton:latest' is not a Triton image",
        ],
    )
    assert (pulumi.calls, (checkout / FILE).exists()) == ([], False)


@pytest.mark.parametrize(
    ("lacking", "capacity", "told"),
    [
        ((), "spot", 0),
        ((quotas.G_SPOT,), "on-demand", 0),
        ((quotas.G,), "spot", 0),
        ((quotas.G, quotas.G_SPOT), "spot", 1),
        ((quotas.G, quotas.G_SPOT, quotas.VPCS), "spot", 2),
    ],
)
def test_the_cheapest_capacity_that_quotas_allow_is_taken(
    lacking: tuple[quotas.Quota, ...],
    capacity: str,
    told: int,
    account: Account,
    checkout: Path,
    pulumi: Pulumi,
) -> None:
    account.lacks(*lacking)
    done = init(*GIVEN)
    assert load_stack_file(checkout / FILE).gpu.pools[0].capacity == capacity
    assert [line.startswith("  lacking") for line in done.stdout.splitlines()].count(True) == told
    assert done.stdout.count("aws service-quotas request-service-quota-increase --region us-west-2 ") == told


def test_a_stack_without_gpus_takes_none_of_their_quotas(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    account.lacks(quotas.G, quotas.G_SPOT, quotas.P, quotas.P4_SPOT)
    with_gpu = init(*GIVEN)
    assert (
        "  or       `pulumi stack rm dev`, which removes stacks/Pulumi.dev.yaml too, and run the same command with "
        "--profile cpu: it needs no quota for GPUs\n"
    ) in with_gpu.stdout
    (checkout / FILE).unlink()
    done = init(*GIVEN, "--profile", "cpu")
    assert done.exit_code == 0, done.output
    made = load_stack_file(checkout / FILE)
    assert (made.gpu.pools, made.triton.pool, made.triton.gpus, made.node_autoscaler) == ((), "cpu", 0, "karpenter")
    assert {need.quota.code for need in quotas.needed_quotas(made)} & set(account.quotas) == set()
    assert [line for line in done.stdout.splitlines() if line.startswith(("  GPU", "  lacking"))] == [
        "  GPU      none: Triton runs on m7i.xlarge or m6i.xlarge"
    ]


def test_a_region_without_the_first_family_gets_the_next(account: Account, checkout: Path, pulumi: Pulumi) -> None:
    done = init(*GIVEN, "--region", "eu-south-1")
    assert done.exit_code == 0, done.output
    made = load_stack_file(checkout / FILE)
    assert (made.region, made.gpu.pools[0].instance_types) == ("eu-south-1", profile.FAMILIES[2])
    (price,) = [line for line in done.stdout.splitlines() if line.startswith("  price")]
    assert price.startswith("  price    unknown: there is no price table of eu-south-1: ")
    assert price.endswith(" with credentials that may call pricing:GetProducts")


@pytest.mark.parametrize("name", ["prod-eu", "staging", "team-a-prod"])
def test_a_name_of_another_environment_is_refused_before_anybody_is_asked(name: str, checkout: Path, pulumi: Pulumi) -> None:
    done = run("stackctl", "init", name)
    said = "staging" if name == "staging" else "prod"
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: '{name}' says {said}, and init makes stacks of dev; choose another name, or make a stack file of your own "
        "(docs/aws.md)\n",
    )


def test_a_region_that_is_none_is_told_with_the_nearest(account: Account, checkout: Path) -> None:
    done = init(*GIVEN, "--region", "us-west2")
    assert done.stderr.startswith("error: 'us-west2' is no region of AWS that has EKS; did you mean 'us-west-2'? ")


@pytest.mark.parametrize(
    ("arn", "owner"),
    [
        ("arn:aws:iam::123456789012:user/teams/jane", "jane"),
        ("arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_1a2b/jane@example.com", "jane@example.com"),
        ("arn:aws:iam::123456789012:root", "root"),
        ("arn:aws:sts::123456789012:assumed-role/admin/jane,doe", "jane-doe"),
    ],
)
def test_the_owner_is_whoever_calls(arn: str, owner: str) -> None:
    assert owner_of(arn) == owner
