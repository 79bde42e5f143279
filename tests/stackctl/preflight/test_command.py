"""`stackctl preflight STACK`: the table, the exit code, and messages for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from spec.stack_names import names
from stackctl.preflight.checks import CHECKS
from stackctl.preflight.checks.check import fail, ok, unknown, warn
from stackctl.preflight.command import Row, failed, show, summary
from tests.command import Ended, run
from tests.paths import ROOT


def preflight(*arguments: str) -> Ended:
    return run("stackctl", "preflight", *arguments)


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


ON_MOTO = ("account", "instance offerings", "images", "capacity reservations", "subnet addresses", "model release")
"""Checks whose operations moto has; for others, the in-process moto breaks instead of refusing them."""


def test_the_checks_are_in_the_table_and_a_new_account_is_not_ready(
    account: str, checkout: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stackctl.preflight.command.CHECKS", [check for check in CHECKS if check.name in ON_MOTO])
    done = preflight("dev")
    assert done.exit_code == 1, done.output
    assert [name for name in ON_MOTO if f"\n{name} " not in f"\n{done.output}"] == []
    assert "triton.image: account 123456789012 has no repository nvidia/tritonserver in us-west-2" in done.output
    assert "What to do:\n  images (fail): triton.image: " in done.output
    assert done.output.endswith("\ndev: 2 fail, 4 ok\n")


def test_a_program_reads_the_same_as_json(account: str, checkout: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackctl.preflight.command.CHECKS", [check for check in CHECKS if check.name == "account"])
    done = preflight("dev", "--json")
    told = "123456789012, as aws:allowedAccountIds says; arn:aws:sts::123456789012:user/moto"
    assert (done.exit_code, json.loads(done.stdout)) == (
        0,
        {
            "stack": "dev",
            "account": "123456789012",
            "region": "us-west-2",
            "ok": True,
            "checks": [{"check": "account", "status": "ok", "message": told, "remedy": None}],
        },
    )


def test_a_stack_that_does_not_exist_is_a_sentence(account: str, checkout: None) -> None:
    done = preflight("production")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: no stack file stacks/Pulumi.production.yaml; there are: {', '.join(names(ROOT))}; "
        "`python3 -m stackctl init production` makes a new one\n",
    )


def test_a_stack_file_with_a_mistake_is_an_error(account: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = preflight("dev")
    assert (done.exit_code, done.stderr.partition("\n")[0]) == (
        2,
        "error: stacks/Pulumi.dev.yaml: line 1: config is not a mapping; give the mapping of all settings",
    )


def test_outside_of_the_checkout_it_says_where_to_go(account: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = preflight("dev")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: no stack file stacks/Pulumi.dev.yaml; run this from the root of the checkout\n",
    )


def test_without_credentials_it_says_how_one_logs_in(account: str, checkout: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    done = preflight("dev")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: there are no AWS credentials: set AWS_PROFILE")


def test_the_table_says_what_was_found_and_the_list_below_what_to_do() -> None:
    found = [Row("a", ok("fine")), Row("b", fail("broken; badly", "mend it")), Row("b", warn("old", "renew it"))]
    console = Console(width=60, highlight=False, markup=False, force_terminal=False)
    with console.capture() as captured:
        show(found, console)
    assert [line.rstrip() for line in captured.get().splitlines()] == [
        "check  result  finding",
        "a      ok      fine",
        "b      fail    broken; badly",
        "       warn    old",
        "",
        "What to do:",
        "  b (fail): broken",
        "    mend it",
        "  b (warn): old",
        "    renew it",
    ]


def test_only_a_failure_fails() -> None:
    found = [Row("a", ok("fine")), Row("b", warn("old", "renew it")), Row("c", unknown("needs x"))]
    assert (failed(found), summary(found)) == (False, "1 warn, 1 unknown, 1 ok")
    assert failed([*found, Row("d", fail("broken", "mend it"))])
