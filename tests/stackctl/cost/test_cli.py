"""`stackctl cost show`: the text below the table, and a stack file with a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stackctl.cost import command
from stackctl.cost.estimate import Estimate, estimate
from stackctl.cost.prices import PriceTable
from tests.command import run
from tests.stackctl.cost.test_usage import TODAY, prices, stack


def compared(monkeypatch: pytest.MonkeyPatch, before: Estimate) -> str:
    now = estimate(stack("prod"), prices(), TODAY)
    monkeypatch.setattr(command, "of_stack", lambda _, revision=None: now if revision is None else before)
    done = run("stackctl", "cost", "show", "prod", "--against", "HEAD~3")
    assert done.exit_code == 0, done.output
    return done.output


def test_a_comparison_without_a_difference_says_so_and_has_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    output = compared(monkeypatch, estimate(stack("prod"), prices(), TODAY))
    assert ("\nno change against HEAD~3\n" in output, "→" in output) == (True, False)


def test_a_comparison_with_a_difference_has_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    output = compared(monkeypatch, estimate(stack("prod"), prices(nat_hour="3"), TODAY))
    assert ("no change" in output, "→" in output) == (False, True)


def test_in_a_region_without_prices_the_cost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    made = estimate(stack("prod"), PriceTable("us-gov-west-1", {}), TODAY)
    monkeypatch.setattr(command, "of_stack", lambda *_: made)
    done = run("stackctl", "cost", "show", "prod")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("prod: list prices of us-gov-west-1, of which there is no table")
    assert (
        "\na million inferences at the stack's expected rates: unknown\nthere is no price table of us-gov-west-1: `python3"
    ) in done.output
    after = json.loads(run("stackctl", "cost", "show", "prod", "--json").stdout)["after"]
    assert (after["asOf"], after["perMillion"]) == (None, None)
    assert after["total"] == {"min": None, "expected": None, "max": None}


@pytest.mark.parametrize(
    ("region", "sentence"),
    [
        ("cn-north-1", "AWS sells cn-north-1 in yuan, and costs are told in US dollars only: they are not known"),
        ("eu-centrl-1", "'eu-centrl-1' is not a region with EKS; did you mean 'eu-central-1'? use af-south-1, "),
    ],
)
def test_prices_that_aws_cannot_tell_are_not_asked_for(region: str, sentence: str) -> None:
    done = run("stackctl", "cost", "refresh", region)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {sentence}")


def test_a_stack_file_with_a_mistake_is_an_error_with_the_code_of_every_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run("stackctl", "cost", "show", "dev")
    assert (done.exit_code, done.stderr.partition("\n")[0]) == (
        2,
        "error: stacks/Pulumi.dev.yaml: line 1: config is not a mapping; give the mapping of all settings",
    )
