"""`stackctl orphans`: output for users and programs, exit codes, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from stackctl.cost import prices
from stackctl.cost.prices import PriceTable
from tests.command import Ended, run
from tests.paths import ROOT
from tests.stackctl.destroy.conftest import CLUSTER, OURS, PRICES, client
from tests.stackctl.destroy.test_orphans import ASSUME, specification, subnet, vpc


def orphans(stack: str, monkeypatch: pytest.MonkeyPatch, checkout: Path = ROOT, options: Sequence[str] = ()) -> Ended:
    monkeypatch.chdir(checkout)
    return run("stackctl", "orphans", stack, *options)


def test_the_command_lists_cost_and_commands_and_ends_with_1(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = client("ec2").allocate_address(Domain="vpc", **specification("elastic-ip", OURS))
    monkeypatch.setattr(prices, "load", lambda _: PRICES)
    done = orphans("dev", monkeypatch)
    assert done.exit_code == 1
    assert f"elastic IP  {mine['AllocationId']}  {mine['PublicIp']}  project=triton-eks, environment=dev" in done.output
    assert "1 things, at least 3.65 USD a month (list prices of us-west-2 as of 2026-01-02)." in done.output
    assert done.output.endswith(
        f"\nNothing was touched. Each is removed with:\n"
        f"  aws ec2 release-address --allocation-id {mine['AllocationId']} --region us-west-2\n"
    )


def test_a_program_reads_the_same_as_json(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = client("ec2").allocate_address(Domain="vpc", **specification("elastic-ip", OURS))
    monkeypatch.setattr(prices, "load", lambda _: PRICES)
    done = orphans("dev", monkeypatch, options=["--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (
        1,
        {
            "stack": "dev",
            "account": "123456789012",
            "region": "us-west-2",
            "up": False,
            "usdAMonthAtLeast": 3.65,
            "leftovers": [
                {
                    "kind": "elastic IP",
                    "id": mine["AllocationId"],
                    "name": mine["PublicIp"],
                    "reason": "project=triton-eks, environment=dev",
                    "usdAMonth": 3.65,
                    "remove": f"aws ec2 release-address --allocation-id {mine['AllocationId']} --region us-west-2",
                }
            ],
        },
    )


def test_in_a_region_without_prices_costs_are_unknown_and_never_0(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client("ec2").allocate_address(Domain="vpc", **specification("elastic-ip", OURS))
    monkeypatch.setattr(prices, "load", lambda region: PriceTable(region, {}))
    done = orphans("dev", monkeypatch)
    assert " environment=dev      unknown" in done.output
    assert (
        "\n1 things, at least 0.00 USD a month (list prices of us-west-2, of which there is no table).\n"
        "there is no price table of us-west-2: `python3 -m stackctl cost refresh us-west-2` makes one"
    ) in done.output
    document = json.loads(orphans("dev", monkeypatch, options=["--json"]).stdout)
    assert [left["usdAMonth"] for left in document["leftovers"]] == [None]


def test_the_command_says_that_nothing_is_left_and_ends_with_0(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = orphans("dev", monkeypatch)
    assert (done.exit_code, done.output) == (0, "dev: nothing is left in AWS\n")


def test_in_another_account_the_command_refuses(account: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would wrongly report that nothing remains."""
    (tmp_path / "stacks").mkdir()
    text = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    other = text.replace("123456789012", "999999999999")
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(other)
    done = orphans("dev", monkeypatch, tmp_path)
    assert done.exit_code == 2
    assert "stacks/Pulumi.dev.yaml is for 999999999999 (aws:allowedAccountIds); log in to that one" in done.stderr


def test_of_a_stack_that_is_up_nothing_is_suggested_for_removal(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client("eks").create_cluster(name=CLUSTER, roleArn=ASSUME, resourcesVpcConfig={"subnetIds": [subnet(vpc([]))]})
    done = orphans("dev", monkeypatch)
    assert done.exit_code == 1
    assert done.output.startswith("dev is up: this is what it has, and nobody can say yet what will be left of it.\n")
    assert "delete-cluster" not in done.output
