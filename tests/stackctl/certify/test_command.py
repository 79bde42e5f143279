"""Before a run: refusals, messages and questions. After it: the stack file is unchanged."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from spec.stack_names import stack_file
from stackctl.account.cluster import ClusterUnusable
from stackctl.certify import command
from stackctl.certify.command import _Pin
from stackctl.preflight.checks.check import Check, ok
from tests.command import run
from tests.paths import ROOT
from tests.stackctl.destroy.conftest import OURS, Pulumi, client, pulumi, resource

__all__ = ["pulumi"]

STACK = "dev"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with models; its dev pins no release and may be deleted."""
    folder = tmp_path / "checkout"
    (folder / "stacks").mkdir(parents=True)
    (folder / ".models").mkdir()
    (folder / "docs").mkdir()
    (folder / "docs" / "proven.md").write_text((ROOT / "docs" / "proven.md").read_text())
    text = (ROOT / stack_file(STACK)).read_text()
    begin, end = text.index("    release:\n"), text.index("  triton-eks:monitoring:")
    text = text[:begin] + text[end:] + "  triton-eks:allowDestroy: true\n"
    (folder / stack_file(STACK)).write_text(text)
    monkeypatch.chdir(folder)
    return folder


def refused(*arguments: str) -> tuple[int, list[str]]:
    done = run("stackctl", "certify", STACK, *arguments)
    return done.exit_code, done.stderr.splitlines()


def test_price_and_preflight_are_said_before_anybody_is_asked(
    checkout: Path, account: str, pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "CHECKS", (Check("zones", lambda _asked: [ok("three")]),))
    code, said = refused("--hours", "2")
    assert code == 2
    assert said[0].startswith(f"{STACK}: all of it in account {account}, us-west-2, for 2 hours and a teardown, for ")
    assert " US$ at most (" in said[0]
    assert said[2] == "preflight: 1 ok"
    assert said[-1] == "error: nothing was made: to begin, say so: make certify STACK=dev CONFIRM=dev"
    assert pulumi.destroys() == []


def test_a_stack_that_is_up_is_left_alone(checkout: Path, account: str, pulumi: Pulumi) -> None:
    pulumi.holds(resource("aws:ec2/vpc:Vpc", "network-vpc"))
    assert refused("--confirm", STACK) == (
        2,
        [
            "error: dev is up (1 resources), and would be taken away: run this on a stack of its own, or `python3 -m "
            "stackctl destroy dev` first"
        ],
    )
    assert pulumi.destroys() == []


def test_what_aws_has_of_the_stack_already_is_told(checkout: Path, account: str, pulumi: Pulumi) -> None:
    specification = [{"ResourceType": "volume", "Tags": OURS}]
    client("ec2").create_volume(AvailabilityZone="us-west-2a", Size=1, TagSpecifications=specification)
    assert refused("--confirm", STACK) == (
        2,
        ["error: dev is not tried:", "  AWS has 1 things of it already: `python3 -m stackctl orphans dev`"],
    )


def test_a_protected_stack_is_refused(checkout: Path, account: str, pulumi: Pulumi) -> None:
    file = checkout / stack_file(STACK)
    file.write_text(file.read_text().replace("  triton-eks:allowDestroy: true\n", ""))
    code, said = refused("--confirm", STACK)
    assert (code, said[0]) == (2, "error: dev is not tried:")
    assert "is protected: write triton-eks:allowDestroy: true" in said[1]


def test_a_release_of_another_bucket_is_refused(account: str, pulumi: Pulumi) -> None:
    assert refused("--confirm", STACK) == (
        2,
        [
            "error: stacks/Pulumi.dev.yaml pins a release, which the new stack's bucket does not have: take models.release "
            "out, or let `stackctl init` write another stack"
        ],
    )


def test_what_the_run_pins_is_taken_out_again(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("config: {}\n")
    pin = _Pin(file)
    file.write_text("config: {release: 1}\n")
    pin.made()
    pin.take_out()
    assert file.read_text() == "config: {}\n"


def test_a_stack_file_that_somebody_has_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("config: {}\n")
    pin = _Pin(file)
    file.write_text("config: {release: 1}\n")
    pin.made()
    file.write_text("config: {release: 1, other: 2}\n")
    pin.take_out()
    assert file.read_text() == "config: {release: 1, other: 2}\n"


def test_without_models_to_release_nothing_is_begun(checkout: Path, account: str, pulumi: Pulumi) -> None:
    (checkout / ".models").rmdir()
    code, said = refused("--confirm", STACK)
    assert (code, said[0].partition(",")[0]) == (2, "error: there is no directory .models")


def test_the_objects_of_a_stack_without_a_cluster_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.pulumi_program, "outputs", lambda _stack: {"region": "us-west-2", "clusterName": None})
    with pytest.raises(ClusterUnusable, match="no output clusterName, tritonRoleArn"):
        command._asked(STACK, lambda cluster: cluster.objects("/api/v1/nodes"))


@pytest.mark.parametrize(
    ("codes", "drift"),
    [([0, 0], ""), ([1], "the first time: - bucket changed"), ([0, 1], "the second time: - bucket changed")],
)
def test_drift_is_looked_for_twice_with_a_refresh(monkeypatch: pytest.MonkeyPatch, codes: list[int], drift: str) -> None:
    asked: list[list[str]] = []

    def ask(arguments: list[str]) -> CompletedProcess[str]:
        asked.append(arguments)
        return CompletedProcess(arguments, codes[len(asked) - 1], "- bucket\n", "  changed\n")

    monkeypatch.setattr(command.pulumi_program, "ask", ask)
    assert command._drift(STACK) == drift
    assert len(asked) == len(codes)
    assert {tuple(arguments) for arguments in asked} == {
        ("preview", "--stack", STACK, "--refresh", "--expect-no-changes", "--diff", "--non-interactive")
    }
