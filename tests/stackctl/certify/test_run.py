"""A run always deletes the stack, keeps the errors, and reports on every claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from spec.failure import Failure
from stackctl.account.guard import Caller
from stackctl.account.read_only import Readers
from stackctl.certify import claims, report
from stackctl.certify import run as certification
from stackctl.certify.claims import Claim
from stackctl.certify.outcome import Verdict
from stackctl.certify.run import Result, Steps, certify
from stackctl.certify.subject import FIRST_INFERENCE, UP, Subject
from stackctl.destroy.state import Resource
from stackctl.orphans.search import Leftover
from tests.paths import ROOT
from tests.spec.stack_config import settings

PAGE = claims.read(ROOT / claims.PAGE)
DRIFT = "AWS resources are created, read, updated and deleted"
GONE = "teardown follows the right order; `orphans` lists everything left, and nothing of others"


@dataclass
class Recorded:
    """Steps that record their calls, each of which may fail."""

    fails: dict[str, BaseException] = field(default_factory=dict)
    book: list[str] = field(default_factory=list)

    def steps(self) -> Steps:
        return Steps(
            up=lambda _seconds: self._step("up"),
            state=lambda: [Resource("urn:x::vpc", "vpc-1", "aws:ec2/vpc:Vpc", True, False, False, {})],
            first_inference=lambda _seconds: self._step("infer") or "pipeline answered",
            teardown=self._teardown,
        )

    def _teardown(self) -> Sequence[Leftover]:
        self._step("teardown")
        return []

    def _step(self, name: str) -> None:
        self.book.append(name)
        if name in self.fails:
            raise self.fails[name]


def subject(objects: Callable[[str], list[dict[str, str]]] = lambda _path: []) -> Subject:
    who = Caller("123456789012", "arn:aws:iam::123456789012:user/jane")
    return Subject(settings(), Readers("us-west-2", {}), (), objects, lambda: "", who, lambda path: path)


def by_claim(results: Sequence[Result]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {one.claim.text: (one.outcome.verdict.value, one.outcome.evidence) for one in results}


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block AWS requests: each check has its own tests."""
    run_alone = {DRIFT: certification.STANDING[DRIFT]}
    monkeypatch.setattr(certification, "STANDING", run_alone)


def test_a_stack_is_brought_up_asked_and_taken_away_and_every_claim_is_in_the_report() -> None:
    recorded, said = Recorded(), list[str]()
    results = certify(PAGE, subject(), recorded.steps(), 3600, said.append)
    assert recorded.book == ["up", "infer", "teardown"]
    assert said == ["pulumi up", "the first inference", "the claims", "taking the stack away"]
    assert [one.claim for one in results] == PAGE
    found = by_claim(results)
    assert found[DRIFT] == ("agree", ("1 resources were made; read again twice, none has changed",))
    assert found[GONE] == ("agree", ("the search of `stackctl orphans` found nothing of the stack",))
    assert found["broken nodes are replaced"][0] == "not tried"


def test_an_up_that_fails_is_not_asked_for_an_answer_and_is_taken_away() -> None:
    recorded, found = Recorded({"up": Failure("no quota")}), subject()
    results = by_claim(certify(PAGE, found, recorded.steps(), 3600, lambda _line: None))
    assert (recorded.book, found.trouble) == (["up", "teardown"], {UP: "no quota"})
    assert results[DRIFT] == ("differ", ("`pulumi up` failed: no quota",))


def test_an_answer_that_does_not_come_ends_nothing_else() -> None:
    recorded, found = Recorded({"infer": Failure("no node")}), subject()
    certify(PAGE, found, recorded.steps(), 3600, lambda _line: None)
    assert (recorded.book, found.trouble) == (["up", "infer", "teardown"], {FIRST_INFERENCE: "no node"})


def test_ctrl_c_takes_the_stack_away_first() -> None:
    recorded = Recorded({"infer": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        certify(PAGE, subject(), recorded.steps(), 3600, lambda _line: None)
    assert recorded.book == ["up", "infer", "teardown"]


def test_when_the_time_is_over_nothing_more_is_tried_but_the_teardown() -> None:
    recorded = Recorded()
    results = by_claim(certify(PAGE, subject(), recorded.steps(), -1, lambda _line: None))
    assert results[DRIFT] == ("not tried", ("the time of the run was over",))
    assert results[GONE][0] == "agree"


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (Failure("the cluster cannot be reached"), "the cluster cannot be reached"),
        (KeyError("type"), "this check itself failed, please report it: KeyError: 'type'"),
    ],
)
def test_a_check_that_is_not_answered_says_nothing_either_way_and_leaves_the_report_of_the_others(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str
) -> None:
    def silent(_subject: Subject) -> None:
        raise raised

    monkeypatch.setattr(certification, "STANDING", {DRIFT: silent})
    results = by_claim(certify(PAGE, subject(), Recorded().steps(), 3600, lambda _line: None))
    assert results[DRIFT] == ("not tried", (told,))
    assert results[GONE][0] == "agree"


def test_a_claim_that_this_version_does_not_know_is_told() -> None:
    [only] = certify([Claim("Nodes", "they fly")], subject(), Recorded().steps(), 3600, lambda _line: None)
    assert (only.outcome.verdict, only.outcome.evidence) == (
        Verdict.NOT_TRIED,
        ("this version of stackctl has no check of it",),
    )


def test_the_report_has_a_row_for_each_claim_and_breaks_no_table() -> None:
    results = certify(PAGE, subject(), Recorded({"up": Failure("a | b\nc")}).steps(), 3600, lambda _line: None)
    page = report.markdown({"stack": "dev"}, results)
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| claim ")]
    assert len(rows) == len(PAGE)
    assert r"**differ** | `pulumi up` failed: a \| b c |" in page
    assert page.startswith(f"# What an account showed: {report.summary(results)}\n\n* stack: dev\n")
    document = report.document({"stack": "dev"}, results)
    assert (document["stack"], len(document["claims"])) == ("dev", len(PAGE))
