"""Workflow steps that may write to GitHub, with their environment and a fake GitHub server."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackctl.review import document
from tests.paths import ROOT
from tests.stackctl.review import scenarios
from tests.stackctl.review.test_github import TOKEN, GitHub, github  # noqa: F401 - a fixture

MARKER = document.marker("offline")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a working directory with the reports of two stacks."""
    (tmp_path / "reports").mkdir()
    for made in (scenarios.nothing(), scenarios.much()):
        (tmp_path / "reports" / f"{made.stack}.json").write_text(made.to_json(), encoding="utf-8")
    return tmp_path


def step(word: str, folder: Path, *python: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one step with a Python without installed packages."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "REVIEW_"))}
    return subprocess.run(
        [sys.executable, "-S", *python, "-m", "stackctl.review.workflow", *([word] if word else [])],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), "REVIEW_NAME": "offline", "REVIEW_TITLE": "What it does", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def to(github: GitHub) -> dict[str, str]:  # noqa: F811 - the fixture
    return {"GITHUB_REPOSITORY": "org/repo", "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}


def test_a_comment_is_rendered_with_the_standard_library_alone(folder: Path) -> None:
    done = step("render", folder, REVIEW_STACKS="dev prod staging")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (folder / "comment.md").read_text(encoding="utf-8")
    assert text.startswith(f"{MARKER}\n## What it does\n")
    assert "| `staging` **failed** |" in text


AFTERWARDS = {("console.program", "typer"), ("console.explanation", "console.aws_errors")}
"""Imports that run only when another program's command line is known, or its botocore is imported."""


def test_everything_that_it_imports_is_of_the_standard_library() -> None:
    """Follow its imports of this project, too."""
    ours, others = set[str](), set[str]()
    todo = ["stackctl.review.workflow"]
    while todo:
        module = todo.pop()
        file = source(module)
        if file is None:
            others.add(module.partition(".")[0])
        elif module not in ours:
            ours.add(module)
            todo += [name for name in imported(file) if (module, name) not in AFTERWARDS]
    assert {"stackctl.review.github", "spec.files", "console.program"} <= ours
    assert sorted(others - sys.stdlib_module_names) == []


def source(module: str) -> Path | None:
    """Return the file of a module of this project."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [node.module, *(name for name in below if source(name))]


def test_the_pull_request_is_named_or_found_by_branch_and_commit(folder: Path, github: GitHub) -> None:  # noqa: F811
    (folder / "comment.md").write_text(f"{MARKER}\nhello", encoding="utf-8")
    done = step("comment", folder, PULL_REQUEST="7", **to(github))
    assert (done.returncode, done.stderr) == (0, "")
    assert github.requests[-1] == "POST /repos/org/repo/issues/7/comments"
    github.pulls = [{"number": 9, "head": {"label": "me:topic", "sha": "abc"}}]
    assert step("comment", folder, HEAD="me:topic", HEAD_SHA="abc", **to(github)).returncode == 0
    gone = step("comment", folder, HEAD="me:topic", HEAD_SHA="old", **to(github))
    assert (gone.returncode, gone.stderr) == (1, "error: no open pull request of me:topic has old as its head\n")


@pytest.mark.parametrize(
    ("word", "environment", "said"),
    [
        ("comment", {"PULL_REQUEST": "7; x"}, "error: PULL_REQUEST is '7; x', which is no number\n"),
        ("comment", {}, "error: the step does not set HEAD\n"),
        ("issue", {}, "error: the step does not set REVIEW_LABEL\n"),
        ("render", {"REVIEW_TITLE": ""}, "error: the step does not set REVIEW_STACKS\n"),
        (
            "render",
            {"REVIEW_NAME": "a b", "REVIEW_STACKS": "dev"},
            "error: 'a b' is no name of a comment",
        ),
        ("", {}, "error: name one step: render, comment, issue, environment\n"),
        ("--help", {}, "error: name one step: render, comment, issue, environment\n"),
    ],
)
def test_a_step_that_does_not_say_what_to_do_is_a_sentence(
    word: str,
    environment: dict[str, str],
    said: str,
    folder: Path,
    github: GitHub,  # noqa: F811
) -> None:
    (folder / "comment.md").write_text(f"{MARKER}\nhello", encoding="utf-8")
    done = step(word, folder, **to(github), **environment)
    assert (done.returncode, github.requests) == (2, [])
    assert done.stderr.startswith(said)


@pytest.mark.parametrize("end", ["\n", "\r\n", f" {TOKEN}", "\t", "\x1b[31m", "\u20ac"])
@pytest.mark.parametrize("word", ["comment", "issue"])
def test_a_token_that_cannot_be_sent_is_refused_and_nothing_of_it_is_printed(
    github: GitHub,  # noqa: F811
    folder: Path,
    end: str,
    word: str,
) -> None:
    (folder / "comment.md").write_text(f"{MARKER}\nhello", encoding="utf-8")
    environment = {**to(github), "GITHUB_TOKEN": f"{TOKEN}{end}", "PULL_REQUEST": "7", "REVIEW_LABEL": "drift"}
    done = step(word, folder, "-X", "dev", **environment)
    assert (done.returncode, done.stdout, github.requests) == (1, "", [])
    assert done.stderr == (
        "error: GITHUB_TOKEN has a blank, a line end or another character that no token has; set it to the token alone, as "
        'export GITHUB_TOKEN="$(gh auth token)" does\n'
    )


def test_without_a_token_it_is_said_what_sets_one(folder: Path) -> None:
    done = step("comment", folder, PULL_REQUEST="7")
    assert (done.returncode, done.stderr.partition(";")[0]) == (1, "error: GITHUB_REPOSITORY and GITHUB_TOKEN not set")


REVIEWERS = {"type": "required_reviewers", "reviewers": [{"type": "User", "reviewer": {"login": "somebody"}}]}
CUSTOM = {"protected_branches": False, "custom_branch_policies": True}
"""As in https://docs.github.com/en/rest/deployments/environments#get-an-environment."""
BRANCHES = "its deployment branches are not main alone; select that branch in the environment's settings"
APPROVAL = "nobody has to approve its jobs; add required reviewers in the environment's settings"


@pytest.mark.parametrize(
    ("name", "policy", "branches", "rules", "lacking"),
    [
        ("prod", CUSTOM, ["main"], [{"type": "branch_policy"}, REVIEWERS], []),
        ("dev", CUSTOM, ["main"], [{"type": "branch_policy"}], []),
        ("prod", CUSTOM, ["main"], [{"type": "branch_policy"}], [APPROVAL]),
        ("prod", CUSTOM, ["main"], [{**REVIEWERS, "reviewers": []}], [APPROVAL]),
        ("dev", None, [], [], [BRANCHES]),
        ("dev", {"protected_branches": True, "custom_branch_policies": False}, [], [], [BRANCHES]),
        ("staging", CUSTOM, ["main", "*"], [{"type": "wait_timer", "wait_timer": 30}], [BRANCHES, APPROVAL]),
    ],
)
def test_nothing_is_deployed_from_an_environment_that_github_does_not_protect(
    folder: Path,
    github: GitHub,  # noqa: F811
    name: str,
    policy: dict[str, bool] | None,
    branches: list[str],
    rules: list[dict[str, object]],
    lacking: list[str],
) -> None:
    github.environments[name] = {
        "protection_rules": rules,
        "deployment_branch_policy": policy,
        "branches": {"branch_policies": [{"name": branch} for branch in branches]},
    }
    done = step("environment", folder, ENVIRONMENT=name, **to(github))
    assert done.returncode == (1 if lacking else 0)
    assert [line.partition(f"environment {name}: ")[2] for line in done.stderr.splitlines()] == lacking


def test_an_environment_that_does_not_exist_is_reported(folder: Path, github: GitHub) -> None:  # noqa: F811
    done = step("environment", folder, ENVIRONMENT="prod", **to(github))
    assert (done.returncode, done.stderr.count("404 Not Found")) == (1, 1)
