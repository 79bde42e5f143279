"""`stackctl review`: create, render and judge reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spec.stack_names import names
from stackctl.review import document, preview, report
from tests.command import Ended, run
from tests.paths import ROOT
from tests.stackctl.review import scenarios


def review(*arguments: object) -> Ended:
    return run("stackctl", "review", *arguments)


def expected(*stacks: str) -> list[str]:
    """Return the options with the stacks that should have a report."""
    return [word for stack in stacks for word in ("--stack", stack)]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    for made in (scenarios.nothing(), scenarios.much()):
        (folder / f"{made.stack}.json").write_text(made.to_json(), encoding="utf-8")
    return folder


def test_a_folder_of_reports_becomes_one_comment(reports: Path) -> None:
    done = review("render", str(reports))
    assert done.exit_code == 0
    text = done.stdout
    assert text.startswith("<!-- triton-eks: preview -->\n")
    assert text.index("### `prod`") < text.index("### `dev`"), "the worst stack is first"


def test_a_matrix_of_stacks_becomes_one_comment_that_github_takes(tmp_path: Path) -> None:
    made = scenarios.much()
    for number in range(60):
        text = replace(made, stack=f"prod-{number:02}").to_json()
        (tmp_path / f"prod-{number:02}.json").write_text(text, encoding="utf-8")
    done = review("render", str(tmp_path))
    assert done.exit_code == 0
    text = done.stdout
    assert len(text) <= document.MOST_CHARACTERS
    assert re.findall(r"^\| `(prod-\d+)`", text, re.MULTILINE) == [f"prod-{number:02}" for number in range(60)]
    assert text.count("\n#### Replaced: deleted and created again\n") == 60
    done = review("gate", str(tmp_path))
    assert done.exit_code == 1
    assert done.stderr.count(": 1 mandatory violation\n") == 60


def test_a_stack_without_a_report_is_told(reports: Path) -> None:
    done = review("render", str(reports), *expected("dev", "prod", "staging"))
    assert done.exit_code == 0
    text = done.stdout
    assert "| `staging` **failed** | 0 | 0 | 0 | 0 | not checked | not known |" in text
    assert text.partition("### `staging`")[2].strip().splitlines()[3] == (
        "There is no report of this stack: its job ended before. The log of the run says why."
    )
    assert text.count("\n### ") == 3


def test_the_gate_fails_for_a_mandatory_violation_or_a_failure(reports: Path, tmp_path: Path) -> None:
    assert review("gate", str(reports / "dev.json")).exit_code == 0
    done = review("gate", str(reports))
    assert done.exit_code == 1
    assert done.stderr == "prod: 1 mandatory violation\n"
    failed = tmp_path / "staging.json"
    failed.write_text(scenarios.failed().to_json(), encoding="utf-8")
    assert review("gate", str(failed)).exit_code == 1


@pytest.mark.parametrize(
    ("said", "told", "differs"),
    [
        (scenarios.stream(scenarios.step("same", "aws:sqs/queue:Queue", "q", {}, {})), "the preview failed", 1),
        (scenarios.stream(scenarios.summary(same=100)), "no policy pack ran: preview with --policy-pack policies", 0),
        (
            '{"changeSummary": {"same": 100}}',
            "which policy packs ran is not told: only the engine's events do (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true)",
            0,
        ),
    ],
    ids=["cut off", "no pack", "document"],
)
def test_where_no_policy_was_asked_the_gate_fails(said: str, told: str, differs: int, tmp_path: Path) -> None:
    """The nightly drift check runs no policies: unchanged results stay valid without them, unless the engine was killed."""
    file = tmp_path / "dev.json"
    file.write_text(report.Report("dev", preview.read(said)).to_json(), encoding="utf-8")
    done = review("gate", str(file))
    assert done.exit_code == 1
    assert done.stderr == f"dev: {told}\n"
    assert review("unchanged", str(file)).exit_code == differs


def test_unchanged_is_said_of_reports_without_steps_and_failures(reports: Path) -> None:
    assert review("unchanged", str(reports / "dev.json")).exit_code == 0
    assert review("unchanged", str(reports)).exit_code == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{}", "schema None; this program reads schema"),
        (b'{"schema": 99}', "schema 99; this program reads schema"),
        (b"\xff", "line 1, column 1: not UTF-8; save the file in that encoding"),
        (b"nothing", "line 1, column 1: not valid JSON: Expecting value"),
    ],
)
def test_a_report_that_cannot_be_read_hides_no_other_stack(content: bytes, why: str, reports: Path) -> None:
    """A fork may write any content, and the default branch's program reads a later program's output."""
    (reports / "staging.json").write_bytes(content)
    (reports / "local.json").mkdir()
    done = review("render", str(reports), *expected("dev", "prod", "staging"))
    assert done.exit_code == 0
    text = done.stdout
    assert "| `staging` **failed** | 0 | 0 | 0 | 0 | not checked | not known |" in text
    told = text.partition("### `staging`")[2].strip().splitlines()[3:5]
    assert told[0].startswith(f"The report of this stack cannot be read: {why}")
    assert told[1].startswith("Where a change gives reports another form, this comment is made by the base's program")
    assert text.count("\n### ") == 3


@pytest.mark.parametrize("command", ["gate", "unchanged"])
def test_an_unreadable_report_is_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    done = review(command, str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr.startswith(
        f"error: {tmp_path}/bad.json is no report of `stackctl review collect`: schema None; this program reads schema"
    )
    done = review(command, str(tmp_path / "none.json"))
    assert (done.exit_code, done.stderr) == (2, f"error: {tmp_path}/none.json: there is no such file; check the path\n")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (scenarios.step("update", "a:b/c:D", "x", {"p": 1}, {"p": 3}, diffs=["p"]), []),
        (
            scenarios.step("update", "a:b/c:D", "x", {"p": 1, "q": 1}, {"p": 2, "q": 2}, diffs=["p", "q"]),
            ["was not approved: update a:b/c:D x (p, q)", "was approved, and would not happen: update a:b/c:D x (p)"],
        ),
        (
            scenarios.replacement("a:b/c:D", "x", {"p": 1}, {"p": 2}),
            ["was not approved: replace a:b/c:D x (p)", "was approved, and would not happen: update a:b/c:D x (p)"],
        ),
        (scenarios.step("same", "a:b/c:D", "x", {}, {}), ["was approved, and would not happen: update a:b/c:D x (p)"]),
    ],
)
def test_what_would_be_done_is_held_against_what_was_approved(now: Any, said: list[str], tmp_path: Path) -> None:
    approved = scenarios.step("update", "a:b/c:D", "x", {"p": 1}, {"p": 2}, diffs=["p"])
    for name, step in (("approved", approved), ("now", now)):
        plan = preview.read(scenarios.stream(step, scenarios.summary()))
        (tmp_path / f"{name}.json").write_text(report.Report("dev", plan).to_json(), encoding="utf-8")
    done = review("same", str(tmp_path / "approved.json"), str(tmp_path / "now.json"))
    assert done.stderr.splitlines() == [f"dev: {line}" for line in said]
    assert done.exit_code == bool(said)


def test_a_preview_of_another_stack_is_not_what_was_approved(reports: Path) -> None:
    done = review("same", str(reports / "dev.json"), str(reports / "prod.json"))
    told = f"error: {reports}/prod.json is of the stack prod, and what was approved of dev\n"
    assert (done.exit_code, done.stderr) == (2, told)
    done = review("same", str(reports), str(reports / "prod.json"))
    assert (done.exit_code, done.stderr) == (2, f"error: {reports} has the reports of dev, prod; name the file of one\n")


@pytest.mark.parametrize("command", ["render", "gate", "unchanged"])
def test_without_a_report_nothing_is_judged_and_nothing_rendered(command: str, tmp_path: Path) -> None:
    done = review(command, str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: there is no report in {tmp_path}: "
        "`python3 -m stackctl review collect STACK --preview FILE --output REPORT` makes one\n"
    )


def test_collect_adds_cost_and_quotas_of_a_stack(tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    events.write_text(scenarios.stream(scenarios.summary({"triton-eks": "1.0.0"}, same=1)), encoding="utf-8")
    out = tmp_path / "prod.json"
    assert review("collect", "prod", "--preview", str(events), "--output", str(out)).exit_code == 0
    made = report.from_json(out.read_text(encoding="utf-8"))
    assert made.cost is not None and made.cost.before is None and made.cost.after.expected > 1000
    assert made.quotas is not None and {quota.code for quota in made.quotas} >= {"ec2/L-DB2E81BA", "ec2/L-417A185B"}
    assert made.models is None


def test_collect_adds_a_replayed_load_and_says_where_there_is_none(tmp_path: Path) -> None:
    events, load, out = tmp_path / "events.json", tmp_path / "replay.json", tmp_path / "prod.json"
    events.write_text(scenarios.stream(scenarios.summary({"triton-eks": "1.0.0"}, same=1)), encoding="utf-8")
    crowd = tmp_path / "crowd.json"
    same = {"gpuHours": 24, "usd": 24.14, "longestShortageSeconds": 0, "turns": 2}
    for file, trace, worse in ((load, "diurnal", 0.02), (crowd, "flash-crowd", 0.2)):
        before, after = ({"triton": {"missedShare": missed, **same}} for missed in (0.01, worse))
        document = {"stack": "prod", "trace": trace, "before": before, "after": after, "notes": []}
        file.write_text(json.dumps(document), encoding="utf-8")
    replays = ("--replay", str(load), "--replay", str(crowd))
    collect = ("collect", "prod", "--preview", str(events), "--output", str(out), *replays)
    assert review(*collect).exit_code == 0
    comment = review("render", str(out)).stdout
    assert "| `diurnal` | `triton` | 1.00% → 2.00% | 0 s | 24.0 | 24.14 | 2 |" in comment
    assert "| `flash-crowd` | `triton` | 1.00% → 20.00% | 0 s | 24.0 | 24.14 | 2 |" in comment
    load.write_text("")
    assert review(*collect).exit_code == 0
    comment = review("render", str(out)).stdout
    assert "of 2 loads 1 were not replayed: " in comment and "`diurnal`" not in comment and "`flash-crowd`" in comment
    crowd.write_text("")
    assert review(*collect).exit_code == 0
    comment = review("render", str(out)).stdout
    assert "of 2 loads 2 were not replayed: " in comment and "Under load" not in comment


def test_a_worse_scaling_setting_gets_a_comment_that_says_by_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four pods are too few with a slow one."""
    file = Path("stacks", "Pulumi.prod.yaml")
    text = (ROOT / file).read_text()
    (tmp_path / "stacks").mkdir()
    (tmp_path / "before.yaml").write_text(text)
    assert text.count("\n    maxReplicas: 8\n") == 1
    (tmp_path / file).write_text(text.replace("\n    maxReplicas: 8\n", "\n    maxReplicas: 4\n"))
    (tmp_path / "events.json").write_text(scenarios.stream(scenarios.summary({"triton-eks": "1.0.0"}, same=1)))
    monkeypatch.chdir(tmp_path)
    done = run("twin", "replay", "prod", "--trace", "slow-pod", "--against", "before.yaml", "--json")
    assert done.exit_code == 0, done.stderr
    Path("replay.json").write_text(done.stdout)
    assert (
        review("collect", "prod", "--preview", "events.json", "--replay", "replay.json", "--output", "prod.json").exit_code
        == 0
    )
    comment = review("render", "prod.json").stdout
    said = re.search(
        r"^\* `slow-pod`, `triton-blue`: \*\*more misses, for less money\*\*: of 10,000 requests ([\d,]+) miss the SLO, "
        r"(\d+) before; without capacity for up to 3,600 s at a time, 1,200 s before; "
        r"\d\.\d GPU-hours \(\d+\.\d%\) fewer\.$",
        comment,
        re.MULTILINE,
    )
    assert said is not None, comment
    after, before = (int(number.replace(",", "")) for number in said.groups())
    assert 2 < after / before < 4


def test_collect_names_what_it_does_not_know(tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    events.write_text(scenarios.stream(scenarios.summary()), encoding="utf-8")
    done = review("collect", "nowhere", "--preview", str(events))
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: no stack file stacks/Pulumi.nowhere.yaml; there are: {', '.join(names(ROOT))}; "
        "`python3 -m stackctl init nowhere` makes a new one\n",
    )


def test_a_preview_of_another_stack_is_refused(tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    told = scenarios.step("create", "aws:s3/bucket:Bucket", "models", {}, {})
    events.write_text(scenarios.stream(told, scenarios.summary(create=1)), encoding="utf-8")
    stack = preview.stack_of(events.read_text(encoding="utf-8"))
    assert stack is not None and stack != "local"
    done = review("collect", "local", "--preview", str(events))
    assert done.exit_code == 2
    assert done.stderr == f"error: {events} is a preview of the stack {stack}, not of local\n"


def test_a_revision_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    events.write_text(scenarios.stream(scenarios.summary(same=1)), encoding="utf-8")
    done = review("collect", "prod", "--preview", str(events), "--against", "nope")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --against nope: git knows no commit of that name")


def test_a_preview_that_said_nothing_is_a_report_that_says_so(tmp_path: Path) -> None:
    events, out = tmp_path / "events.json", tmp_path / "dev.json"
    events.write_text("", encoding="utf-8")
    assert review("collect", "dev", "--preview", str(events), "--output", str(out)).exit_code == 0
    (error,) = report.from_json(out.read_text(encoding="utf-8")).plan.errors
    assert error.startswith("the preview said nothing that can be read: the engine's JSON is empty")
    assert review("gate", str(out)).exit_code == 1


@pytest.mark.parametrize("events", [b"\x7fELF\x02\x01\x01\0", "{}\n".encode("utf-16"), b"\x80\x81\xff\n"])
def test_a_preview_that_is_no_text_is_a_report_that_says_so(events: bytes, tmp_path: Path) -> None:
    given, out = tmp_path / "events", tmp_path / "report.json"
    given.write_bytes(events)
    assert review("collect", "prod", "--preview", str(given), "--output", str(out)).exit_code == 0
    (error,) = report.from_json(out.read_text(encoding="utf-8")).plan.errors
    assert error.startswith("the preview said nothing that can be read: ")
