"""Rules for every workflow: pinned actions, least permissions, no injection, limits."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bootstrap import github
from spec import stack_names
from spec.names import cluster_name, runner_project
from spec.settings import load_stack_file
from tests.repository.workflows import workflow_files as files
from tests.repository.workflows.workflow_files import Document, Step
from twin.host import tools

PIN = re.compile(r"^\s*(?:- )?uses: (?P<action>[\w.-]+/[\w./-]+)@(?P<sha>[0-9a-f]{40})  # v\d+\.\d+\.\d+$")
EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
MOST_MINUTES = 180
WRITES = {
    ("preview", "preview"): {"id-token"},
    ("preview", "comment"): {"pull-requests"},
    ("offline-comment", "comment"): {"pull-requests"},
    ("deploy", "dev"): {"id-token"},
    ("deploy", "staging"): {"id-token"},
    ("deploy", "prod"): {"id-token"},
    ("deploy-stack", "plan"): {"id-token"},
    ("deploy-stack", "up"): {"id-token"},
    ("drift", "look"): {"id-token"},
    ("drift", "tell"): {"issues"},
    ("destroy", "destroy"): {"id-token"},
    ("images", "publish"): {"attestations", "id-token", "packages"},
}
"""The write permissions of each job. A job that is missing here may write nothing."""
_ENVIRONMENTS = {
    stack: load_stack_file(stack_names.file_of(stack, files.ROOT)).environment for stack in stack_names.names(files.ROOT)
}
"""The environment of each stack of this repository."""
CREDENTIALS = [
    one for one in files.steps() if str(one.content.get("uses", "")).startswith("aws-actions/configure-aws-credentials@")
]
JOBS = [pytest.param(name, job, content, id=f"{name}/{job}") for name, job, content in files.jobs()]


@pytest.fixture(scope="session")
def actionlint(pytestconfig: pytest.Config) -> Path:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes a minute and says so
        return tools.ensure(["actionlint"], Console(stderr=True))["actionlint"]


@pytest.fixture(scope="session")
def shellcheck() -> str:
    import shutil
    import sys

    return str(shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck")


def run(*command: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=files.ROOT, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.timeout(1800)
def test_actionlint_and_shellcheck_find_nothing(actionlint: Path, shellcheck: str) -> None:
    done = run(actionlint, "-shellcheck", shellcheck, "-no-color", *sorted(files.FOLDER.glob("*.yml")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.timeout(1800)
def test_actionlint_would_find_something(actionlint: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(files.text("drift").replace("needs: look", "needs: loook"), encoding="utf-8")
    assert 'needs job "loook"' in run(actionlint, "-no-color", broken).stdout


@pytest.mark.parametrize("step", [one for one in files.steps() if one.script], ids=str)
def test_shellcheck_finds_nothing_in_a_step(step: Step, shellcheck: str) -> None:
    done = run(shellcheck, "--shell=bash", "-", stdin=f"set -eo pipefail\n{step.script}")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "file", sorted([*files.FOLDER.glob("*.yml"), *files.ACTIONS.glob("*/*.yml")]), ids=lambda file: file.stem
)
def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it(file: Path) -> None:
    used = [line for line in file.read_text(encoding="utf-8").splitlines() if re.match(r"\s*(- )?uses:", line)]
    foreign = [line for line in used if "uses: ./" not in line]
    assert [line for line in foreign if not PIN.match(line)] == []


def test_one_action_has_one_version() -> None:
    pins: dict[str, set[str]] = {}
    for file in (*files.FOLDER.glob("*.yml"), *files.ACTIONS.glob("*/*.yml")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if match := PIN.match(line):
                pins.setdefault(match["action"], set()).add(line.partition("@")[2])
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", files.NAMES)
def test_a_workflow_may_do_nothing_by_itself(name: str) -> None:
    assert files.load(name)["permissions"] == {}


@pytest.mark.parametrize(("name", "job", "content"), JOBS)
def test_a_job_may_write_what_it_is_for_and_nothing_else(name: str, job: str, content: Document) -> None:
    permissions: dict[str, Any] = content["permissions"]
    assert {scope for scope, access in permissions.items() if access == "write"} == WRITES.get((name, job), set())
    assert set(permissions.values()) <= {"read", "write"}


@pytest.mark.parametrize(("name", "job", "content"), JOBS)
def test_a_job_ends_in_time(name: str, job: str, content: Document) -> None:
    if "uses" not in content:  # the limit of the called workflow counts
        assert 1 <= content["timeout-minutes"] <= MOST_MINUTES


@pytest.mark.parametrize("step", [one for one in files.steps() if one.script], ids=str)
def test_no_expression_is_in_a_script(step: Step) -> None:
    """GitHub would insert text of a pull request into the script before the shell reads it."""
    assert EXPRESSION.findall(step.script or "") == []


@pytest.mark.parametrize("name", files.NAMES)
def test_a_workflow_runs_bash_that_ends_at_the_first_failure(name: str) -> None:
    document = files.load(name)
    if any(one.script for one in files.steps() if one.workflow == name):
        assert document["defaults"] == {"run": {"shell": "bash"}}


@pytest.mark.parametrize("name", [name for name in files.NAMES if name not in ("deploy", "deploy-stack", "destroy")])
def test_runs_do_not_pile_up(name: str) -> None:
    assert set(files.load(name)["concurrency"]) == {"group", "cancel-in-progress"}


def test_each_stack_may_have_an_account_of_its_own() -> None:
    """Role and state depend on the stack everywhere; the variable for all stacks is the fallback."""
    for name in files.NAMES:
        for variable, stack, fallback in re.findall(
            r"fromJSON\(vars\.(\w+) \|\| '\{\}'\)\[(\w+\.\w+)\] \|\| vars\.(\w+)", files.text(name)
        ):
            assert (variable, stack) in {(f"{fallback}S", s) for s in ("inputs.stack", "matrix.stack")}
        alone = re.findall(r"\$\{\{ vars\.(?:AWS_\w*ROLE|PULUMI_BACKEND_URL) \}\}", files.text(name))
        assert alone == [], f"{name}.yml: {alone} is one for all stacks"


def test_one_run_per_stack_changes_it_and_none_is_cut_off() -> None:
    groups = [
        files.load("deploy-stack")["jobs"]["up"]["concurrency"],
        files.load("destroy")["jobs"]["destroy"]["concurrency"],
    ]
    assert groups == [{"group": "stack-${{ inputs.stack }}", "cancel-in-progress": False}] * 2


def test_a_checkout_leaves_no_token_behind() -> None:
    checkouts = [one for one in files.steps() if str(one.content.get("uses", "")).startswith("actions/checkout@")]
    assert len(checkouts) >= 8
    assert [str(one) for one in checkouts if one.content["with"].get("persist-credentials") is not False] == []


def test_what_runs_a_forks_code_has_neither_credentials_nor_the_right_to_write() -> None:
    document = files.load("offline")
    assert set(document[True]) == {"pull_request", "push"}
    assert "pull_request_target" not in "".join(map(files.text, files.NAMES))
    for job in document["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in files.text("offline") and "vars." not in files.text("offline")


def test_who_comments_on_a_fork_runs_none_of_its_code_and_installs_nothing() -> None:
    (job,) = files.load("offline-comment")["jobs"].values()
    assert "ref" not in job["steps"][0]["with"]  # the default branch
    scripts = "".join(step.get("run", "") for step in job["steps"])
    assert set(re.findall(r"python3 -m ([\w.]+)", scripts)) == {"stackctl.review.workflow"}
    assert "pip" not in scripts and "make" not in scripts


def test_a_job_that_may_write_to_github_installs_nothing() -> None:
    for (name, job), scopes in WRITES.items():
        if scopes & {"pull-requests", "issues"}:
            steps = files.load(name)["jobs"][job]["steps"]
            assert {step["run"].split()[:3][-1] for step in steps if "run" in step} == {"stackctl.review.workflow"}
            assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} <= {
                "actions/checkout",
                "actions/download-artifact",
            }


@pytest.mark.parametrize(("name", "job"), [("preview", "preview"), ("drift", "look")])
def test_credentials_that_read_are_for_branches_of_this_repository(name: str, job: str) -> None:
    content = files.load(name)["jobs"][job]
    assert "vars.AWS_PREVIEW_ROLE" in content["if"]
    assert "vars.AWS_DEPLOY_ROLE" not in files.text(name)


def test_approvers_are_asked_when_there_is_something_to_read() -> None:
    jobs = files.load("deploy-stack")["jobs"]
    assert (jobs["up"]["needs"], "environment" in jobs["plan"]) == (["protected", "plan"], False)
    assert jobs["up"]["if"] == (
        "${{ !cancelled() && needs.protected.result == 'success' "
        "&& (needs.plan.result == 'success' || needs.plan.result == 'skipped') }}"
    ), "never after a plan that failed, nor in an environment that anybody may use"
    assert "AWS_DEPLOY_ROLE" not in str(jobs["plan"])
    assert "vars.AWS_PREVIEW_ROLE != ''" in files.load("deploy")["jobs"]["dev"]["if"]


def test_who_changes_an_environment_is_approved_by_it() -> None:
    assert files.load("deploy-stack")["jobs"]["up"]["environment"] == "${{ inputs.environment }}"
    options = files.load("destroy")[True]["workflow_dispatch"]["inputs"]["stack"]["options"]
    environment = files.load("destroy")["jobs"]["destroy"]["environment"]
    known = re.fullmatch(r"\$\{\{ fromJSON\('(.+)'\)\[inputs\.stack\] \}\}", environment)
    assert known is not None
    assert json.loads(known[1]) == {stack: _ENVIRONMENTS[stack] for stack in options}


def test_the_same_commit_goes_from_environment_to_environment() -> None:
    jobs = files.load("deploy")["jobs"]
    order = [(name, job.get("needs"), job["with"]["environment"]) for name, job in jobs.items()]
    assert order == [("dev", None, "dev"), ("staging", "dev", "staging"), ("prod", "staging", "prod")]
    before = {name: _ENVIRONMENTS.get(job["with"].get("before", "")) for name, job in jobs.items()}
    assert before == {name: needs for name, needs, _ in order}


def test_every_stack_is_deployed_with_its_environment_and_one_after_the_other() -> None:
    jobs = files.load("deploy")["jobs"]
    deployed = {stack: name for name, job in jobs.items() for stack in job["strategy"]["matrix"]["stack"]}
    assert deployed == {stack: environment for stack, environment in _ENVIRONMENTS.items() if environment != "local"}
    assert {job["with"]["stack"] for job in jobs.values()} == {"${{ matrix.stack }}"}
    assert {job["strategy"]["max-parallel"] for job in jobs.values()} == {1}


def test_each_stack_has_the_deploy_role_of_its_environment_and_may_have_a_preview_role_of_its_own() -> None:
    preview = "${{{{ fromJSON(vars.AWS_PREVIEW_ROLES || '{{}}')[{}] || vars.AWS_PREVIEW_ROLE }}}}"
    deploy = "${{ fromJSON(vars.AWS_DEPLOY_ROLES)[inputs.stack] }}"
    assert {(one.workflow, one.job): one.content["with"]["role-to-assume"] for one in CREDENTIALS} == {
        ("preview", "preview"): preview.format("matrix.stack"),
        ("drift", "look"): preview.format("matrix.stack"),
        ("deploy-stack", "plan"): preview.format("inputs.stack"),
        ("deploy-stack", "up"): deploy,
        ("destroy", "destroy"): deploy,
    }


@pytest.mark.parametrize(("name", "job"), [(one.workflow, one.job) for one in CREDENTIALS])
def test_credentials_last_as_long_as_the_job_may_take(name: str, job: str) -> None:
    (step,) = [one for one in CREDENTIALS if (one.workflow, one.job) == (name, job)]
    lasts = int(step.content["with"].get("role-duration-seconds", 3600))
    most = github.DEPLOY_SECONDS if "DEPLOY" in step.content["with"]["role-to-assume"] else github.PREVIEW_SECONDS
    assert files.load(name)["jobs"][job]["timeout-minutes"] * 60 <= lasts <= most


def test_a_run_that_waits_for_approval_or_was_cut_off_is_not_commented_on() -> None:
    condition = files.load("offline-comment")["jobs"]["comment"]["if"]
    assert """contains(fromJSON('["success", "failure", "timed_out"]'), github.event.workflow_run.conclusion)""" in condition


def test_every_stack_but_those_of_prod_can_be_destroyed_from_here() -> None:
    options = files.load("destroy")[True]["workflow_dispatch"]["inputs"]["stack"]["options"]
    assert set(options) == {stack for stack, environment in _ENVIRONMENTS.items() if environment in ("dev", "staging")}


def test_the_cli_is_of_the_version_that_the_twin_has() -> None:
    (step,) = [one for one in files.steps() if str(one.content.get("uses", "")).startswith("pulumi/actions@")]
    assert f"v{step.content['with']['pulumi-version']}" == tools.FAMILIES["pulumi"].version()


def test_the_matrix_has_every_stack() -> None:
    stacks = {file.stem.removeprefix("Pulumi.") for file in (files.ROOT / "stacks").glob("Pulumi.*.yaml")}
    assert set(files.load("offline")["jobs"]["preview"]["strategy"]["matrix"]["stack"]) == stacks
    for name, job in (("preview", "comment"), ("offline-comment", "comment"), ("drift", "tell")):
        told = files.step(name, job, "Render").environment["REVIEW_STACKS"]
        assert set(told.split()) == (stacks if name == "offline-comment" else stacks - {"local"})
    for name, job in (("preview", "preview"), ("drift", "look")):
        assert set(files.load(name)["jobs"][job]["strategy"]["matrix"]["stack"]) == stacks - {"local"}


@pytest.mark.parametrize(
    ("workflow", "job", "stack"),
    [
        ("preview", "preview", "matrix.stack"),
        ("drift", "look", "matrix.stack"),
        ("deploy-stack", "plan", "inputs.stack"),
        ("deploy-stack", "up", "inputs.stack"),
        ("destroy", "destroy", "inputs.stack"),
    ],
)
def test_each_stack_can_have_a_runner_of_its_own(workflow: str, job: str, stack: str) -> None:
    # A variable of the environment comes too late: GitHub knows it only after a runner has the job.
    project = runner_project(cluster_name("{0}"))
    label = f"format('codebuild-{project}-{{1}}-{{2}}', {stack}, github.run_id, github.run_attempt)"
    in_vpc = f"contains(fromJSON(vars.VPC_RUNNERS || '[]'), {stack}) && {label} || "
    # A runner in the VPC would delete itself, and its interface keeps the VPC. Its token administers the repository, so
    # it must not run a pull request's code.
    if workflow in ("destroy", "preview"):
        in_vpc = ""
    wanted = f"${{{{ {in_vpc}fromJSON(vars.RUNNERS || '{{}}')[{stack}] || vars.RUNNER || 'ubuntu-24.04' }}}}"
    assert files.load(workflow)["jobs"][job]["runs-on"] == wanted


@pytest.mark.parametrize(("workflow", "job", "before"), [("deploy-stack", "up", "Up"), ("destroy", "destroy", "Destroy")])
def test_a_stack_that_is_named_for_it_is_reached_through_a_node(workflow: str, job: str, before: str) -> None:
    steps = files.load(workflow)["jobs"][job]["steps"]
    order = [str(step.get("name", step.get("uses"))).partition("@")[0] for step in steps]
    place = order.index("./.github/actions/tunnel")
    assert order.index("aws-actions/configure-aws-credentials") < place < order.index(before)
    lists = ["TUNNELS", "VPC_RUNNERS"] if workflow == "destroy" else ["TUNNELS"]
    assert steps[place]["if"] == " || ".join(f"contains(fromJSON(vars.{name} || '[]'), inputs.stack)" for name in lists)
