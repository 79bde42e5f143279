"""The steps that need neither AWS nor GitHub's runners are run, as they stand in the files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from review import report
from tests.review import scenarios
from tests.review.test_github import GitHub, github  # noqa: F401 - a fixture
from tests.workflows import workflow_files as files


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a step finds: the tracked folders that it uses, and this Python as the checkout's."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("benchmarks", "cost", "infra", "modelctl", "review", "stacks", ".github"):
        (folder / name).symlink_to(files.ROOT / name)
    (folder / "virtual_environment.py").symlink_to(files.ROOT / "virtual_environment.py")
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (folder / ".venv" / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / ".venv" / "bin" / name).chmod(0o755)
    return folder


def run(step: files.Step, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a step's script as GitHub does: a file of its own, bash, in the checkout."""
    script = folder.parent / "step.sh"
    script.write_text(step.script or "", encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "AWS_", "PULUMI_"))}
    path = os.pathsep.join([str(folder / ".venv" / "bin"), inherited.get("PATH", os.defpath)])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env={**inherited, "PATH": path, "PYTHONPATH": str(files.ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def write_reports(folder: Path, *made: Any) -> None:
    (folder / "reports").mkdir(exist_ok=True)
    for one in made:
        (folder / "reports" / f"{one.stack}.json").write_text(one.to_json(), encoding="utf-8")


@pytest.mark.parametrize(
    ("workflow", "job"), [("preview", "preview"), ("offline", "preview"), ("drift", "look")], ids=lambda part: part
)
def test_a_report_is_made_of_the_events(workflow: str, job: str, checkout: Path) -> None:
    events = scenarios.stream(scenarios.step("delete", "aws:sqs/queue:Queue", "q", old={}), scenarios.summary(delete=1))
    (checkout / "events.json").write_text(events, encoding="utf-8")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=files.ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    done = run(files.step(workflow, job, "Report"), checkout, STACK="dev", BASE=head.stdout.strip())
    assert (done.returncode, done.stderr) == (0, "")
    made = report.from_json((checkout / "reports" / "dev.json").read_text(encoding="utf-8"))
    assert [(step.action, step.name) for step in made.plan.steps] == [("delete", "q")]
    assert made.base == (None if workflow == "drift" else head.stdout.strip())


@pytest.mark.parametrize("workflow", ["preview", "offline"])
def test_the_gate_is_the_last_word(workflow: str, checkout: Path) -> None:
    gate = files.step(workflow, "preview", "Fail where the preview failed or a mandatory policy is not kept")
    write_reports(checkout, scenarios.nothing())
    assert run(gate, checkout).returncode == 0
    write_reports(checkout, scenarios.much())
    assert run(gate, checkout).returncode == 1


@pytest.mark.parametrize(
    ("workflow", "job", "output", "missing"),
    [
        ("preview", "comment", "comment.md", ["staging"]),
        ("offline-comment", "comment", "comment.md", ["local", "staging"]),
        ("drift", "tell", "issue.md", ["staging"]),
    ],
)
def test_reports_are_rendered_and_those_that_are_missing_named(
    workflow: str, job: str, output: str, missing: list[str], checkout: Path
) -> None:
    write_reports(checkout, scenarios.nothing(), scenarios.much())
    done = run(files.step(workflow, job, "Render"), checkout)
    assert (done.returncode, done.stderr) == (0, "")
    text = (checkout / output).read_text(encoding="utf-8")
    assert text.count("\n### ") == 2 + len(missing)
    assert [stack for stack in ("dev", "local", "prod", "staging") if f"| `{stack}` **failed** |" in text] == missing


@pytest.mark.parametrize("workflow", ["preview", "offline-comment"])
def test_without_any_report_the_comment_says_so(workflow: str, checkout: Path) -> None:
    assert run(files.step(workflow, "comment", "Render"), checkout).returncode == 0
    text = (checkout / "comment.md").read_text(encoding="utf-8")
    assert text.count("There is no report of this stack") == text.count("\n### ") == (4 if "offline" in workflow else 3)


def server(github: GitHub) -> dict[str, str]:  # noqa: F811 - the fixture
    return {"GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": "org/repo", "GITHUB_TOKEN": "token"}


def test_the_comment_is_written_to_the_pull_request_of_the_run(checkout: Path, github: GitHub) -> None:  # noqa: F811
    (checkout / "comment.md").write_text("<!-- triton-eks: preview -->\nhello", encoding="utf-8")
    done = run(files.step("preview", "comment", "Comment"), checkout, NUMBER="7", **server(github))
    assert (done.returncode, done.stderr) == (0, "")
    assert github.requests[-1] == "POST /repos/org/repo/issues/7/comments"


def test_a_forks_comment_goes_to_the_pull_request_that_github_names(checkout: Path, github: GitHub) -> None:  # noqa: F811
    github.pulls = [{"number": 9, "head": {"label": "me:topic; rm -rf $(x)", "sha": "abc"}}]
    (checkout / "comment.md").write_text("<!-- triton-eks: offline -->\nhello", encoding="utf-8")
    head = {"HEAD_OWNER": "me", "HEAD_BRANCH": "topic; rm -rf $(x)", "HEAD_SHA": "abc"}
    done = run(files.step("offline-comment", "comment", "Comment"), checkout, **head, **server(github))
    assert (done.returncode, done.stderr) == (0, "")
    assert github.requests[-1] == "POST /repos/org/repo/issues/9/comments"
    stale = run(
        files.step("offline-comment", "comment", "Comment"), checkout, **{**head, "HEAD_SHA": "old"}, **server(github)
    )
    assert stale.returncode == 1
    assert len(github.comments) == 1


def test_drift_opens_one_issue_and_the_next_quiet_night_closes_it(checkout: Path, github: GitHub) -> None:  # noqa: F811
    tell = files.step("drift", "tell", "Open, edit or close the issue")
    (checkout / "issue.md").write_text("<!-- triton-eks: drift -->\nAWS differs", encoding="utf-8")
    write_reports(checkout, scenarios.nothing(), scenarios.much())
    for _ in range(2):
        assert run(tell, checkout, LOOKED="success", **server(github)).returncode == 0
    assert [(issue["title"], issue["state"]) for issue in github.issues] == [("AWS differs from main", "open")]
    shutil.rmtree(checkout / "reports")
    write_reports(checkout, scenarios.nothing())
    assert run(tell, checkout, LOOKED="failure", **server(github)).returncode == 0
    assert github.issues[0]["state"] == "open"
    assert run(tell, checkout, LOOKED="success", **server(github)).returncode == 0
    assert github.issues[0]["state"] == "closed"


def test_destroy_wants_the_name_twice(checkout: Path) -> None:
    guard = files.step("destroy", "guard", "The name was typed twice")
    assert run(guard, checkout, STACK="dev", CONFIRM="dev").returncode == 0
    refused = run(guard, checkout, STACK="dev", CONFIRM="dve")
    assert refused.returncode == 1
    assert "nothing was destroyed" in refused.stdout
