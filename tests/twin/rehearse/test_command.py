"""The page that a person reads of a rehearsal."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spec.failure import Failure
from tests.twin.rehearse.test_state import NETWORK
from twin.host.home import TwinHome
from twin.rehearse import command
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.measured import Away, Measured

VPC, SUBNET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "state.json"
    path.write_text(text)
    return path


def test_the_worst_is_read_first_and_what_follows_from_one_change_together() -> None:
    subnets = [
        Finding("interrupted", "replace", SUBNET, name, ("vpcId",), "nodes in it go", f"{VPC}::net") for name in ("a", "b")
    ]
    made = Rehearsal(
        (
            Finding("interrupted", "replace", VPC, "net", ("cidrBlock",), "the network goes", None),
            *subnets,
            Finding("rolled", "update", "aws:eks/addon:Addon", "dns", ("addonVersion",), "its pods are replaced", None),
            Finding("none", "create", SUBNET, "c", (), None, None),
        ),
        ("net is protected",),
        ("2 resources are hidden",),
    )
    shown = io.StringIO()
    command._show("prod", made, Console(file=shown, width=200, highlight=False, markup=False))
    assert shown.getvalue().splitlines() == [
        "",
        "INTERRUPTED: something that serves, or that it needs, is away until the new one is there",
        "  replace net (aws:ec2/vpc:Vpc) because of cidrBlock",
        "      the network goes",
        "  replace 2 of aws:ec2/subnet:Subnet, with net: a, b",
        "      nodes in it go",
        "",
        "ROLLED: pods or nodes are replaced a few at a time; requests go on",
        "  update dns (aws:eks/addon:Addon) because of addonVersion",
        "      its pods are replaced",
        "",
        "the engine would not go on: net is protected",
        "",
        "note: 2 resources are hidden",
        "",
        "prod: 1 create, 1 update, 3 replace. Do not merge it as it is, unless what stands above is meant.",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "prod::triton-eks",
            "qa::triton-eks",
            "no stack file stacks/Pulumi.qa.yaml; there are: dev, local, prod, staging; "
            "`python3 -m stackctl init qa` makes a new one",
        ),
        ("eu-west-1", "eu-west-1", "aws:region is us-west-2, and the state is of eu-west-1; they must be the same"),
    ],
)
def test_a_state_that_the_checkout_has_no_file_for_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = json.dumps({"version": 3, "deployment": {"resources": [NETWORK]}}).replace(old, new)
    quiet = Console(file=io.StringIO())
    with pytest.raises(Failure) as caught:
        command.rehearse(TwinHome(tmp_path / "home"), written(tmp_path, text), as_json=False, progress=quiet, output=quiet)
    assert str(caught.value).endswith(said)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("network", "is_told"),
    [({"zones": 3}, True), ('{"zones": 3}', True), ({"zones": ["us-west-2a"]}, False), (None, False)],
)
def test_subnets_that_would_move_are_explained_where_the_zones_are_a_number(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    network: Any,
    is_told: bool,
) -> None:
    state_of_prod = json.dumps({"version": 3, "deployment": {"resources": [NETWORK]}})
    moved = Finding("interrupted", "replace", SUBNET, "a", ("availabilityZone",), "nodes in it go", None)
    monkeypatch.setattr(command.scratch, "account", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(command, "judge", lambda *_: Rehearsal((moved,), (), ()))
    monkeypatch.setattr(command.stack_files, "read", lambda _: {"triton-eks:network": network})
    shown, quiet = io.StringIO(), Console(file=io.StringIO())
    file, output = written(tmp_path, state_of_prod), Console(file=shown, width=400)
    assert command.rehearse(TwinHome(tmp_path / "home"), file, as_json=False, progress=quiet, output=output) == 1
    assert ("the stack file has network.zones as a number" in shown.getvalue()) is is_told
    assert (
        shown.getvalue()
        .splitlines()[-1]
        .startswith("Nothing was measured: no request was sent: the state has no Deployment")
    )
    assert command.rehearse(TwinHome(tmp_path / "home"), file, as_json=True, progress=quiet, output=output) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["measured"] is None
    assert document["not_measured"].startswith("no request was sent: the state has no Deployment of Triton")


ANSWERED, LOST = Measured(9, 9, {}, None, 5.0), Measured(9, 8, {"UNAVAILABLE": 1}, Away(1, 2, 1), 5.0)
ROLLED = Finding("rolled", "update", "kubernetes:apps/v1:Deployment", "triton", (), None, None)


@pytest.mark.parametrize(
    ("findings", "errors", "seen", "code", "said"),
    [
        ((ROLLED,), (), ANSWERED, 0, "as expected"),
        ((ROLLED,), (), LOST, 1, "no lost request was expected: believe what was measured"),
        (
            (ROLLED,),
            (),
            dataclasses.replace(ANSWERED, ended="no room"),
            1,
            "the change did not come to its end, so that nothing is compared: no room",
        ),
        ((dataclasses.replace(ROLLED, effect="interrupted"),), (), ANSWERED, 1, "though an interruption was expected"),
        ((), ("net is protected",), None, 1, "Nothing was measured: the change was not made"),
    ],
)
def test_a_change_that_was_made_ends_well_where_nothing_was_lost_and_nothing_bad_was_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    findings: tuple[Finding, ...],
    errors: tuple[str, ...],
    seen: Measured | None,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(command.under_load, "make", lambda *_: (Rehearsal(findings, errors, ()), seen))
    shown, quiet = io.StringIO(), Console(file=io.StringIO())
    output = Console(file=shown, width=400)
    assert command.rehearse_made(TwinHome(tmp_path), "main", as_json=False, progress=quiet, output=output) == code
    assert said in shown.getvalue()
    assert command.rehearse_made(TwinHome(tmp_path), "main", as_json=True, progress=quiet, output=output) == code
    document = json.loads(capsys.readouterr().out)
    measured, why = document["measured"], document["not_measured"]
    assert (why is None) is (measured is not None)
    assert measured is None if seen is None else (measured["sent"], measured["lost"]) == (seen.sent, seen.lost)
