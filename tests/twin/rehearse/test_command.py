"""The page of a rehearsal for its readers."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from spec.failure import Failure
from tests.twin.rehearse.test_state import NETWORK
from twin.host.home import TwinHome
from twin.rehearse import command
from twin.rehearse.judgement import Finding, Rehearsal
from twin.rehearse.measured import Away, Measured
from twin.rehearse.part import NotMade, Part
from twin.rehearse.previewed import Previewed
from twin.rehearse.serving import Server
from twin.services.prerequisites import Lacking

VPC, SUBNET = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "state.json"
    path.write_text(text)
    return path


def of_prod() -> str:
    return json.dumps({"version": 3, "deployment": {"resources": [NETWORK]}})


def rehearsed(tmp_path: Path, file: Path, since: str | None, *, as_json: bool, output: Console) -> int:
    home, quiet = TwinHome(tmp_path / "home"), Console(file=io.StringIO())
    return command.rehearse(home, file, since, as_json=as_json, progress=quiet, output=output)


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
    text = of_prod().replace(old, new)
    quiet = Console(file=io.StringIO())
    with pytest.raises(Failure) as caught:
        rehearsed(tmp_path, written(tmp_path, text), None, as_json=False, output=quiet)
    assert str(caught.value).endswith(said)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("no-such-branch", "no-such-branch: git knows no commit of that name (branches, tags and hashes are names)"),
        ("HEAD", "HEAD: it has no stacks/Pulumi.qa.yaml; give a revision of this program that has it"),
    ],
)
def test_a_revision_that_cannot_be_the_one_of_the_state_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: str, said: str
) -> None:
    file, output = written(tmp_path, of_prod().replace("urn:pulumi:prod", "urn:pulumi:qa")), Console(file=io.StringIO())
    monkeypatch.setattr(command.on_state, "check", lambda _: None)  # a stack that is newer than the revision
    with pytest.raises(Failure) as caught:
        rehearsed(tmp_path, file, since, as_json=False, output=output)
    assert (str(caught.value), caught.value.exit_code) == (said, 2)
    assert not (tmp_path / "home").exists()


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


@dataclasses.dataclass(frozen=True)
class Both:
    """The outcomes of a state and of its change under load, and the requested number of pods."""

    state: tuple[Rehearsal, Rehearsal | None]
    load: tuple[Rehearsal, Measured | None]
    wanted: list[int] = dataclasses.field(default_factory=list)


INTERRUPTED = dataclasses.replace(ROLLED, effect="interrupted")
FINE, BAD, NOTHING = Rehearsal((ROLLED,), (), ()), Rehearsal((INTERRUPTED,), (), ()), Rehearsal((), (), ())


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Both], None]:
    def comes_of(found: Both) -> None:
        judged, before = found.state
        monkeypatch.setattr(command.on_state, "check", lambda _: None)
        monkeypatch.setattr(command.on_state, "judge", lambda *_: (Previewed(judged, {}), before))
        monkeypatch.setattr(command.under_load, "check", lambda _: None)
        monkeypatch.setattr(
            command.under_load, "make", lambda _home, _since, wanted, _progress: found.wanted.append(wanted) or found.load
        )

    return comes_of


def test_a_state_in_which_nobody_answers_is_judged_and_says_why_nothing_was_measured(
    tmp_path: Path, both: Callable[[Both], None], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = Both((BAD, None), (FINE, ANSWERED))
    both(seen)
    file, shown = written(tmp_path, of_prod()), io.StringIO()
    assert rehearsed(tmp_path, file, None, as_json=False, output=Console(file=shown, width=400)) == 1
    why = "no request was sent: the state has no Deployment of Triton that keeps a pod, so that nobody would answer"
    assert shown.getvalue().splitlines()[-1] == f"Nothing was measured: {why}."
    assert rehearsed(tmp_path, file, None, as_json=True, output=Console(file=shown)) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["stack"], document["bad"], document["measured"]) == ("prod", True, None)
    assert (document["not_measured"], document["serving"]) == (why, None)
    assert (document["under_load"], document["compared"], seen.wanted) == (None, None, [])


KEY = f"{ROLLED.type}::{ROLLED.name}"
GROUP = Finding("interrupted", "replace", "aws:eks/nodeGroup:NodeGroup", "system", ("instanceTypes",), "nodes go", None)
SERVER = Server("triton", "0e10a8ff4598", "1 nvidia.com/gpu", 8, reads_bucket=True)
PART = Part(
    {KEY: {"old": 1}, "kubernetes:core/v1:Service::triton": {}}, {KEY: {"new": 1}}, [SERVER], [SERVER], frozenset(), {}
)
"""The change alters the Deployment and deletes the Service."""


ComesOf = Callable[[Rehearsal, Measured | Failure], None]


@pytest.fixture
def of_part(monkeypatch: pytest.MonkeyPatch, both: Callable[[Both], None]) -> ComesOf:
    """Use PART as the serving objects of a state, with this judgement, and this count or failure of its change."""

    def comes_of(judged: Rehearsal, seen: Measured | Failure) -> None:
        def make(*_: object) -> Measured:
            if isinstance(seen, Failure):
                raise seen
            return seen

        both(Both((judged, None), (FINE, ANSWERED)))
        monkeypatch.setattr(command.part, "of", lambda *_: PART)
        monkeypatch.setattr(command.part_under_load, "make", make)

    return comes_of


@pytest.mark.parametrize(
    ("findings", "seen", "code", "said"),
    [
        ((ROLLED,), ANSWERED, 0, "  as expected"),
        ((ROLLED,), LOST, 1, "  no lost request was expected: believe what was measured"),
        ((ROLLED,), dataclasses.replace(ANSWERED, ended="no room"), 1, "to its end, so that nothing is compared: no room"),
        ((dataclasses.replace(ROLLED, effect="interrupted"),), LOST, 1, "  as expected"),
        ((ROLLED, GROUP), ANSWERED, 1, "  judged, and not made: replace system (aws:eks/nodeGroup:NodeGroup)"),
    ],
)
def test_a_change_of_what_serves_in_a_state_is_counted_beside_what_is_only_judged(
    tmp_path: Path,
    of_part: ComesOf,
    capsys: pytest.CaptureFixture[str],
    findings: tuple[Finding, ...],
    seen: Measured,
    code: int,
    said: str,
) -> None:
    of_part(Rehearsal(findings, (), ()), seen)
    file, shown = written(tmp_path, of_prod()), io.StringIO()
    assert rehearsed(tmp_path, file, None, as_json=False, output=Console(file=shown, width=400)) == code
    lines = shown.getvalue().splitlines()
    assert "THE CHANGE of what serves in prod, made on a twin:" in lines
    assert "  made of the state: 2 of 1 resources, of which the change touches 2: triton with 3 of 8 pods" in lines
    assert lines[-1].endswith(said)
    assert rehearsed(tmp_path, file, None, as_json=True, output=Console(file=shown)) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["measured"]["sent"], document["not_measured"]) == (seen.sent, None)
    told = document["serving"]
    assert (told["made"], told["pods"]) == (sorted(PART.before), {"triton": {"made": 3, "kept": 8}})
    assert told["changed"] == sorted(PART.before)
    assert "sample models answer for release 0e10a8ff4598" in told["stand_ins"][0]


def test_an_interruption_that_is_only_judged_is_not_expected_of_the_figures(tmp_path: Path, of_part: ComesOf) -> None:
    of_part(Rehearsal((ROLLED, GROUP), (), ()), ANSWERED)
    shown = io.StringIO()
    rehearsed(tmp_path, written(tmp_path, of_prod()), None, as_json=False, output=Console(file=shown, width=400))
    assert shown.getvalue().splitlines()[-2] == "  as expected"


@pytest.mark.parametrize("failure", [NotMade("no such Secret"), Lacking("no such Secret")])
@pytest.mark.parametrize(("judged", "code"), [(FINE, 0), (BAD, 1)])
def test_a_state_that_this_machine_cannot_have_is_judged_and_the_reason_stands_in_the_place_of_figures(
    tmp_path: Path,
    of_part: ComesOf,
    capsys: pytest.CaptureFixture[str],
    failure: Failure,
    judged: Rehearsal,
    code: int,
) -> None:
    of_part(judged, failure)
    file, output = written(tmp_path, of_prod()), Console(file=io.StringIO())
    assert rehearsed(tmp_path, file, None, as_json=True, output=output) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["measured"], document["serving"]) == (None, None)
    assert document["not_measured"] == "no request was sent: no such Secret"


def test_what_the_engine_refuses_is_not_made(tmp_path: Path, of_part: ComesOf, capsys: pytest.CaptureFixture[str]) -> None:
    of_part(Rehearsal((ROLLED,), ("net is protected",), ()), ANSWERED)
    file, output = written(tmp_path, of_prod()), Console(file=io.StringIO())
    assert rehearsed(tmp_path, file, None, as_json=True, output=output) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["measured"] is None
    assert document["not_measured"].endswith("the change was not made, as the engine would not go on")


def test_a_state_and_a_revision_are_one_report_that_says_which_part_is_of_which(
    tmp_path: Path, both: Callable[[Both], None]
) -> None:
    both(Both((FINE, NOTHING), (FINE, ANSWERED)))
    shown = io.StringIO()
    file, output = written(tmp_path, of_prod()), Console(file=shown, width=400)
    assert rehearsed(tmp_path, file, "HEAD", as_json=False, output=output) == 0
    headings = [line for line in shown.getvalue().splitlines() if line[:1] not in ("", " ")]
    assert [line.partition(":")[0] for line in headings] == [
        "THE STATE of prod, judged",
        "ROLLED",
        "prod",
        "Nothing was measured",
        "THE CHANGE from HEAD, made on a twin of local",
        "ROLLED",
        "local",
        "MEASURED on the twin, with 10 requests/s to pipeline while the change was made",
        "HOW FAR the figures are of the state too",
    ]
    assert "a twin of `local` is changed in the place of what serves in the state" in shown.getvalue()
    assert shown.getvalue().splitlines()[-1] == f"  made under load: update triton ({ROLLED.type})"


@pytest.mark.parametrize(
    ("state", "local", "seen", "code"),
    [
        (FINE, FINE, ANSWERED, 0),
        (BAD, FINE, ANSWERED, 1),
        (FINE, BAD, ANSWERED, 1),
        (FINE, FINE, LOST, 1),
        (FINE, FINE, dataclasses.replace(ANSWERED, ended="no room"), 1),
        (FINE, FINE, None, 1),
    ],
)
def test_one_exit_code_and_one_document_are_of_both_parts(
    tmp_path: Path,
    both: Callable[[Both], None],
    capsys: pytest.CaptureFixture[str],
    state: Rehearsal,
    local: Rehearsal,
    seen: Measured | None,
    code: int,
) -> None:
    both(Both((state, NOTHING), (local, seen)))
    file, quiet = written(tmp_path, of_prod()), Console(file=io.StringIO())
    assert rehearsed(tmp_path, file, "HEAD", as_json=True, output=quiet) == code
    document = json.loads(capsys.readouterr().out)
    beside = document["under_load"]
    assert (document["stack"], document["bad"], document["measured"]) == ("prod", state.bad, None)
    assert (beside["stack"], beside["bad"], beside["measured"] is None) == ("local", local.bad, seen is None)
    assert document["compared"]["differs"] == []
    assert rehearsed(tmp_path, file, "HEAD", as_json=False, output=quiet) == code


def test_the_change_is_made_on_as_many_pods_as_the_state_keeps(
    tmp_path: Path, both: Callable[[Both], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Both((FINE, NOTHING), (FINE, ANSWERED))
    both(seen)
    monkeypatch.setattr(command.serving, "least_pods", lambda _: 3)
    file, quiet = written(tmp_path, of_prod()), Console(file=io.StringIO())
    rehearsed(tmp_path, file, "HEAD", as_json=False, output=quiet)
    command.rehearse_made(TwinHome(tmp_path), "HEAD", as_json=False, progress=quiet, output=quiet)
    assert seen.wanted == [3, 1]


def test_what_is_known_of_the_state_is_printed_where_the_twin_does_not_come_up(
    tmp_path: Path, both: Callable[[Both], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Failure("no room")

    both(Both((FINE, NOTHING), (FINE, ANSWERED)))
    monkeypatch.setattr(command.under_load, "make", fails)
    shown = io.StringIO()
    with pytest.raises(Failure, match="no room"):
        rehearsed(tmp_path, written(tmp_path, of_prod()), "HEAD", as_json=False, output=Console(file=shown, width=400))
    assert "prod: 1 update. Nothing is lost" in shown.getvalue()
