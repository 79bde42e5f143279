"""Runs every step that has a script, unchanged from the workflow file.

Programs for reports and comments are real. Programs that need AWS, a twin or a quarter of an hour are fakes that record
their calls: `pulumi`, `make`, and Python if it starts one of these.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stackctl.review import report
from tests.repository.workflows import workflow_files as files
from tests.repository.workflows.stand_ins import StandIns
from tests.stackctl.review import scenarios
from tests.stackctl.review.test_github import TOKEN, GitHub, github  # noqa: F401 - a fixture

_GATE = "Fail where the preview failed or a mandatory policy is not kept"
_UNSAID = "Fail where the preview failed and the report does not say why"
Test = TypeVar("Test", bound=Callable[..., object])


def runs(*names: str) -> Callable[[Test], Test]:
    """Declare the steps that a test runs: `WORKFLOW/JOB/NAME` with its parameters in braces. `checkout` checks this."""

    def decorate(test: Test) -> Test:
        _DECLARED[test.__name__] = names
        return test

    return decorate


_DECLARED: dict[str, tuple[str, ...]] = {}


@pytest.fixture
def checkout(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Create the checkout that a step uses: its folders, and this Python as the checkout's Python."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("benchmarks", "console", "infra", "modelctl", "spec", "stackctl", "stacks", ".git", ".github"):
        (folder / name).symlink_to(files.ROOT / name)
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (folder / ".venv" / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / ".venv" / "bin" / name).chmod(0o755)
    yield folder
    parameters = getattr(request.node, "callspec", None)
    declared = expanded(request.node.originalname, parameters.params if parameters is not None else {})
    assert set((tmp_path / "ran").read_text(encoding="utf-8").splitlines()) == declared


def expanded(test: str, parameters: Mapping[str, Any]) -> set[str]:
    copies = (copy for value in parameters.values() if isinstance(value, files.Step) for copy in value.copies)
    return {name.format(**parameters) for name in _DECLARED.get(test, ())} | set(map(str, copies))


@pytest.fixture
def stand_ins(checkout: Path, tmp_path: Path) -> StandIns:
    """Put fakes on the checkout's PATH."""
    return StandIns(tmp_path / "stand-ins", checkout / ".venv" / "bin")


def run(step: files.Step, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as GitHub does: as a separate file, with bash, in the checkout."""
    script = folder.parent / "step.sh"
    script.write_text(step.script or "", encoding="utf-8")
    with (folder.parent / "ran").open("a", encoding="utf-8") as ran:
        ran.writelines(f"{one}\n" for one in (step, *step.copies))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "AWS_", "PULUMI_"))}
    path = os.pathsep.join([str(folder / ".venv" / "bin"), inherited.get("PATH", os.defpath)])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env={**inherited, "PATH": path, "PYTHONPATH": str(files.ROOT), **step.environment, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def of_local(events: str) -> str:
    """Return the preview of the stack whose requests replay fastest."""
    return events.replace("urn:pulumi:prod:", "urn:pulumi:local:")


def write_reports(folder: Path, *made: Any) -> None:
    (folder / "reports").mkdir(exist_ok=True)
    for one in made:
        (folder / "reports" / f"{one.stack}.json").write_text(one.to_json(), encoding="utf-8")


@runs("{step}")
@pytest.mark.parametrize(
    "step", files.distinct("preview/preview/Report", "offline/preview/Report", "drift/look/Report"), ids=str
)
def test_a_report_is_made_of_the_events(step: files.Step, checkout: Path) -> None:
    events = scenarios.stream(scenarios.step("delete", "aws:sqs/queue:Queue", "q", old={}), scenarios.summary(delete=1))
    (checkout / "events.json").write_text(of_local(events), encoding="utf-8")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=files.ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    done = run(step, checkout, STACK="local", BASE=head.stdout.strip())
    assert (done.returncode, done.stderr) == (0, "")
    made = report.from_json((checkout / "reports" / "local.json").read_text(encoding="utf-8"))
    assert [(step.action, step.name) for step in made.plan.steps] == [("delete", "q")]
    assert made.base == (None if step.workflow == "drift" else head.stdout.strip())
    loads = [] if step.workflow == "drift" else ["diurnal", "flash-crowd", "slow-pod", "prometheus-away"]
    assert [replay.trace for replay in made.replays] == loads


_GATES = files.distinct(*(f"{job}/{_GATE}" for job in ("preview/preview", "offline/preview", "deploy-stack/plan")))


@runs("{gate}")
@pytest.mark.parametrize("gate", _GATES, ids=str)
def test_the_gate_is_the_last_word(gate: files.Step, checkout: Path) -> None:
    write_reports(checkout, scenarios.nothing())
    assert run(gate, checkout, STATUS="0").returncode == 0
    write_reports(checkout, scenarios.much())
    assert run(gate, checkout, STATUS="0").returncode == 1


@runs("{workflow}/{job}/Render")
@pytest.mark.parametrize(
    ("workflow", "job", "missing"),
    [
        ("preview", "comment", ["staging"]),
        ("offline-comment", "comment", ["local", "staging"]),
        ("drift", "tell", ["staging"]),
    ],
)
def test_reports_are_rendered_and_those_that_are_missing_named(
    workflow: str, job: str, missing: list[str], checkout: Path
) -> None:
    write_reports(checkout, scenarios.nothing(), scenarios.much())
    done = run(files.step(workflow, job, "Render"), checkout)
    assert (done.returncode, done.stderr) == (0, "")
    text = (checkout / "comment.md").read_text(encoding="utf-8")
    assert text.count("\n### ") == 2 + len(missing)
    assert [stack for stack in ("dev", "local", "prod", "staging") if f"| `{stack}` **failed** |" in text] == missing


@runs("{workflow}/comment/Render")
@pytest.mark.parametrize("workflow", ["preview", "offline-comment"])
def test_without_any_report_the_comment_says_so(workflow: str, checkout: Path) -> None:
    assert run(files.step(workflow, "comment", "Render"), checkout).returncode == 0
    text = (checkout / "comment.md").read_text(encoding="utf-8")
    assert text.count("There is no report of this stack") == text.count("\n### ") == (4 if "offline" in workflow else 3)


def server(github: GitHub) -> dict[str, str]:  # noqa: F811 - the fixture
    return {"GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": "org/repo", "GITHUB_TOKEN": TOKEN}


@runs("preview/comment/Comment")
def test_the_comment_is_written_to_the_pull_request_of_the_run(checkout: Path, github: GitHub) -> None:  # noqa: F811
    (checkout / "comment.md").write_text("<!-- triton-eks: preview -->\nhello", encoding="utf-8")
    done = run(files.step("preview", "comment", "Comment"), checkout, PULL_REQUEST="7", **server(github))
    assert (done.returncode, done.stderr) == (0, "")
    assert github.requests[-1] == "POST /repos/org/repo/issues/7/comments"


@runs("offline-comment/comment/Comment")
def test_a_forks_comment_goes_to_the_pull_request_that_github_names(checkout: Path, github: GitHub) -> None:  # noqa: F811
    github.pulls = [{"number": 9, "head": {"label": "me:topic; rm -rf $(x)", "sha": "abc"}}]
    (checkout / "comment.md").write_text("<!-- triton-eks: offline -->\nhello", encoding="utf-8")
    head = {"HEAD": "me:topic; rm -rf $(x)", "HEAD_SHA": "abc"}
    done = run(files.step("offline-comment", "comment", "Comment"), checkout, **head, **server(github))
    assert (done.returncode, done.stderr) == (0, "")
    assert github.requests[-1] == "POST /repos/org/repo/issues/9/comments"
    stale = run(
        files.step("offline-comment", "comment", "Comment"), checkout, **{**head, "HEAD_SHA": "old"}, **server(github)
    )
    assert stale.returncode == 1
    assert len(github.comments) == 1


@runs("deploy-stack/protected/Fail unless the environment is for main and its approvers")
def test_an_environment_that_any_branch_may_use_ends_the_deployment(checkout: Path, github: GitHub) -> None:  # noqa: F811
    check = files.step("deploy-stack", "protected", "Fail unless the environment is for main and its approvers")
    found: dict[str, Any] = {"protection_rules": [], "deployment_branch_policy": None}
    github.environments["dev"] = found
    assert run(check, checkout, ENVIRONMENT="dev", **server(github)).returncode == 1
    found["deployment_branch_policy"] = {"protected_branches": False, "custom_branch_policies": True}
    found["branches"] = {"branch_policies": [{"name": "main"}]}
    assert run(check, checkout, ENVIRONMENT="dev", **server(github)).returncode == 0


@runs("drift/tell/Open, edit or close the issue")
def test_drift_opens_one_issue_and_the_next_quiet_night_closes_it(checkout: Path, github: GitHub) -> None:  # noqa: F811
    tell = files.step("drift", "tell", "Open, edit or close the issue")
    (checkout / "comment.md").write_text("<!-- triton-eks: drift -->\nAWS differs", encoding="utf-8")
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


@runs("destroy/guard/The name was typed twice")
def test_destroy_wants_the_name_twice(checkout: Path) -> None:
    guard = files.step("destroy", "guard", "The name was typed twice")
    assert run(guard, checkout, STACK="dev", CONFIRM="dev").returncode == 0
    refused = run(guard, checkout, STACK="dev", CONFIRM="dve")
    assert refused.returncode == 1
    assert "nothing was destroyed" in refused.stdout


def engine_events(checkout: Path, tmp_path: Path) -> tuple[str, str]:
    """Return the events of a preview step, and the exit code that it passes to the next steps."""
    status = (tmp_path / "output").read_text(encoding="utf-8").removeprefix("status=").strip()
    return (checkout / "events.json").read_text(encoding="utf-8"), status


PACK = "--policy-pack policies --policy-pack-config policies/config.json"
PREVIEWS = [
    pytest.param(
        "preview",
        "preview",
        "Preview",
        f"pulumi preview --stack dev --json --non-interactive {PACK}",
        id="preview",
    ),
    pytest.param(
        "deploy-stack",
        "plan",
        "Preview",
        f"pulumi preview --stack dev --json --non-interactive {PACK}",
        id="plan",
    ),
    pytest.param(
        "deploy-stack",
        "up",
        "Preview again",
        f"pulumi preview --stack dev --json --non-interactive {PACK}",
        id="up",
    ),
    pytest.param(
        "drift",
        "look",
        "Preview with a refresh",
        "pulumi preview --stack dev --refresh --exclude **kubernetes:helm.sh/v3:Release** "
        "--expect-no-changes --json --non-interactive",
        id="drift",
    ),
    pytest.param(
        "offline",
        "preview",
        "Preview on the twin, against the base",
        ".venv/bin/python -m twin preview dev --against abc --events",
        id="offline",
    ),
]


@runs("{workflow}/{job}/{name}")
@pytest.mark.parametrize(("workflow", "job", "name", "command"), PREVIEWS)
def test_a_preview_leaves_its_events_and_its_exit_code(
    workflow: str, job: str, name: str, command: str, checkout: Path, stand_ins: StandIns, tmp_path: Path
) -> None:
    stand_ins.put("pulumi", "python")
    for code in (0, 1, 255):
        stand_ins.answer({command: ("{}\n", code)})
        (tmp_path / "output").unlink(missing_ok=True)
        done = run(
            files.step(workflow, job, name), checkout, STACK="dev", BASE="abc", GITHUB_OUTPUT=str(tmp_path / "output")
        )
        assert (done.returncode, engine_events(checkout, tmp_path)) == (0, ("{}\n", str(code)))
    assert stand_ins.calls == [command] * 3


@runs("{judge}")
@pytest.mark.parametrize("judge", [*_GATES, *files.distinct(f"drift/look/{_UNSAID}")], ids=str)
def test_a_preview_that_failed_and_has_told_nobody_fails_the_job(judge: files.Step, checkout: Path) -> None:
    """A stream that stops too early may look like a preview without changes."""
    write_reports(checkout, scenarios.nothing())
    judged = {status: run(judge, checkout, STATUS=status) for status in ("0", "1", "255", "")}
    assert {status: done.returncode for status, done in judged.items()} == {"0": 0, "1": 1, "255": 1, "": 1}
    assert "::error::the preview ended with exit code 255" in judged["255"].stdout


@runs("preview/preview/Preview", "preview/preview/Report", "preview/preview/" + _GATE)
def test_a_stream_that_was_cut_off_fails_the_job(checkout: Path, stand_ins: StandIns, tmp_path: Path) -> None:
    stand_ins.put("pulumi")
    cut_off = of_local(scenarios.stream(scenarios.step("same", "aws:sqs/queue:Queue", "q", old={}, new={})))
    stand_ins.answer({f"pulumi preview --stack local --json --non-interactive {PACK}": (cut_off, 137)})
    run(files.step("preview", "preview", "Preview"), checkout, STACK="local", GITHUB_OUTPUT=str(tmp_path / "output"))
    events, status = engine_events(checkout, tmp_path)
    assert (events, status) == (cut_off, "137")
    assert run(files.step("preview", "preview", "Report"), checkout, STACK="local", BASE="HEAD").returncode == 0
    judged = run(files.step("preview", "preview", _GATE), checkout, STATUS=status)
    assert (judged.returncode, judged.stderr) == (1, "local: the preview failed\n")


@runs("drift/look/" + _UNSAID)
def test_drift_that_was_found_is_no_failure_of_the_look(checkout: Path) -> None:
    write_reports(checkout, scenarios.much())
    assert run(files.step("drift", "look", _UNSAID), checkout, STATUS="1").returncode == 0


_BRING = "Bring the release that the environment before has had"
_OUTPUTS = {"pulumi stack output modelBucket --stack staging": ("models-staging\n", 0)}


@runs("deploy-stack/up/" + _BRING)
def test_a_release_is_brought_from_the_bucket_of_the_environment_before(checkout: Path, stand_ins: StandIns) -> None:
    stand_ins.put("pulumi", "python")
    stand_ins.answer(_OUTPUTS)
    done = run(files.step("deploy-stack", "up", _BRING), checkout, STACK="staging", BEFORE="dev")
    assert (done.returncode, done.stderr) == (0, "")
    assert stand_ins.calls == [
        *_OUTPUTS,
        ".venv/bin/python -m modelctl promote staging --before dev --bucket models-staging",
    ]


@runs("deploy-stack/up/" + _BRING)
@pytest.mark.parametrize("failing", _OUTPUTS)
def test_without_a_bucket_nothing_is_brought(failing: str, checkout: Path, stand_ins: StandIns) -> None:
    stand_ins.put("pulumi", "python")
    stand_ins.answer({**_OUTPUTS, failing: ("", 255)})
    done = run(files.step("deploy-stack", "up", _BRING), checkout, STACK="staging", BEFORE="dev")
    assert done.returncode == 255
    assert stand_ins.calls[-1] == failing


_PLAN, _SAME = "Report, for the approvers to read in the run's summary", "Fail where it is not what was approved"
_DELETES = scenarios.stream(
    scenarios.step("delete", "aws:sqs/queue:Queue", "q", old={}), scenarios.summary({"triton-eks": "1.0.0"}, delete=1)
)
_CREATES = scenarios.stream(
    scenarios.step("create", "aws:sqs/queue:Queue", "q", new={}), scenarios.summary({"triton-eks": "1.0.0"}, create=1)
)


@runs("deploy-stack/plan/" + _PLAN, "deploy-stack/up/" + _SAME)
def test_what_is_done_is_what_the_approvers_have_read(checkout: Path, tmp_path: Path) -> None:
    (checkout / "events.json").write_text(_DELETES, encoding="utf-8")
    summary = tmp_path / "summary"
    done = run(files.step("deploy-stack", "plan", _PLAN), checkout, STACK="prod", GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, done.stderr) == (0, "")
    assert "What approving prod does" in (read := summary.read_text(encoding="utf-8")) and "`q`" in read
    (checkout / "reports").rename(checkout / "approved")
    compare = files.step("deploy-stack", "up", _SAME)
    same = run(compare, checkout, STACK="prod", STATUS="0", PLANNED="success")
    assert (same.returncode, same.stderr) == (0, "")
    assert run(compare, checkout, STACK="prod", STATUS="137", PLANNED="success").returncode == 1
    (checkout / "events.json").write_text(_CREATES, encoding="utf-8")
    assert run(compare, checkout, STACK="prod", STATUS="0", PLANNED="skipped").returncode == 0
    other = run(compare, checkout, STACK="prod", STATUS="0", PLANNED="success")
    assert other.returncode == 1
    assert other.stderr.splitlines() == [
        "prod: was not approved: create aws:sqs/queue:Queue q",
        "prod: was approved, and would not happen: delete aws:sqs/queue:Queue q",
    ]


COMMANDS = [
    (
        "deploy-stack",
        "up",
        "Up",
        f"pulumi up --stack dev --yes --skip-preview --non-interactive --suppress-outputs {PACK}",
    ),
    ("destroy", "destroy", "Destroy", ".venv/bin/python -m stackctl destroy dev --confirm dev"),
    ("offline", "test", "Lint and the tests of layers 1 to 5", "make test"),
    ("offline", "preview", "Python packages", "make venv"),
    ("nightly", "audit", "Known vulnerabilities of the pinned packages, their licences and SBOMs", "make audit"),
]


@runs("{workflow}/{job}/{name}")
@pytest.mark.parametrize(("workflow", "job", "name", "command"), COMMANDS)
def test_a_step_is_one_command_and_ends_as_it_ends(
    workflow: str, job: str, name: str, command: str, checkout: Path, stand_ins: StandIns
) -> None:
    stand_ins.put("pulumi", "make", "python")
    for code in (0, 2):
        stand_ins.answer({command: ("", code)})
        assert run(files.step(workflow, job, name), checkout, STACK="dev").returncode == code
    assert stand_ins.calls == [command] * 2


@runs("actions/tunnel/Open the tunnel")
def test_the_steps_behind_an_open_tunnel_go_through_it(checkout: Path, stand_ins: StandIns, tmp_path: Path) -> None:
    command = ".venv/bin/python -m stackctl tunnel dev"
    stand_ins.put("python")
    stand_ins.answer(
        {command: ("export KUBECONFIG=/tmp/k HTTPS_PROXY=http://127.0.0.1:4711 NO_PROXY='*.example.com,::1'\n", 0)}
    )
    through = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ENV": str(tmp_path / "environment")}
    step = files.step("actions", "tunnel", "Open the tunnel")
    assert run(step, checkout, STACK="dev", **through).returncode == 0
    assert (tmp_path / "environment").read_text().splitlines() == [
        "KUBECONFIG=/tmp/k",
        "HTTPS_PROXY=http://127.0.0.1:4711",
        "NO_PROXY=*.example.com,::1",
    ]
    stand_ins.answer({command: ("", 2)})
    assert run(step, checkout, STACK="dev", **through).returncode != 0
    assert stand_ins.calls == [command] * 2


_E2E = "The twin, end to end and part by part, and the long tests on real servers"


@runs("nightly/{job}/{name}")
@pytest.mark.parametrize(
    ("job", "name", "group", "command"),
    [
        ("slow", "One group of the slow tests", "images", "make e2e-slow GROUP=images"),
        ("slow", "One group of the slow tests", "keda", "make e2e-slow GROUP=keda"),
        ("slow", "One group of the slow tests", "properties", "make test-properties"),
        ("e2e", _E2E, "e2e", "make e2e"),
    ],
)
def test_every_night_slow_tests_are_run_end_as_they_end_and_leave_a_record(
    job: str, name: str, group: str, command: str, checkout: Path, stand_ins: StandIns
) -> None:
    (checkout / ".ci").mkdir()
    shutil.copy(files.ROOT / ".ci" / "slow", checkout / ".ci")
    stand_ins.put("buildah", "make", "mmdebstrap", "strip")
    for code in (0, 2):
        stand_ins.answer({command: ("", code)})
        assert run(files.step("nightly", job, name), checkout, GROUP=group).returncode == bool(code)
    assert [call for call in stand_ins.calls if "slow-groups" not in call] == [command] * 2
    (kept,) = [step for step in files.load("nightly")["jobs"][job]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert (kept["if"], kept["with"]["retention-days"]) == ("always()", 90)
    lines = (checkout / kept["with"]["path"]).read_text().splitlines()
    assert [re.sub(r"^\S+Z \S+ | in \d+ s$", "", line) for line in lines] == [f"{group} passed", f"{group} failed"]


_PACKAGES = "Python packages of the program and of its policies, by hash"


@runs("actions/setup/" + _PACKAGES)
def test_program_and_policies_have_an_environment_each_installed_by_hash(checkout: Path, stand_ins: StandIns) -> None:
    stand_ins.put("python", "python3")
    assert run(files.step("actions", "setup", _PACKAGES), checkout).returncode == 0
    install = "-m pip install --quiet --disable-pip-version-check --require-hashes --requirement"
    assert stand_ins.calls == [
        "python3 -m venv .venv",
        f".venv/bin/python {install} requirements.txt",
        "python3 -m venv policies/venv",
        f"policies/venv/bin/python {install} policies/requirements.txt",
    ]


@runs(*(f"images/publish/{name}" for name in ("Tools", "Python packages", "Build", "Push", "Sign, with the SBOM")))
def test_images_are_pushed_and_signed_by_the_digests_that_the_build_has_printed(checkout: Path, stand_ins: StandIns) -> None:
    digests = {"modelctl": f"sha256:{'1' * 64}", "triton-worker": f"sha256:{'2' * 64}"}
    stand_ins.put("cosign", "go", "make", "skopeo", "sudo", "syft")
    stand_ins.answer(
        {
            "go env GOPATH": ("/go\n", 0),
            "sudo images/build": ("".join(f"{name}@{digest}\n" for name, digest in digests.items()), 0),
        }
    )
    place = "ghcr.io/acme/triton-eks"
    variables = {
        "GITHUB_OUTPUT": str(checkout / "output"),
        "GITHUB_PATH": str(checkout / "path"),
        "GITHUB_STEP_SUMMARY": str(checkout / "summary"),
        **{
            "REGISTRY": "ghcr.io",
            "REPOSITORY": "Acme/triton-eks",
            "PLACE": place,
            "ACTOR": "me",
            "TOKEN": "t",
            "TAG": "abc",
        },
    }
    for name in ("Tools", "Python packages", "Build", "Push", "Sign, with the SBOM"):
        done = run(files.step("images", "publish", name), checkout, **variables)
        assert done.returncode == 0, done.stderr
    outputs = dict(line.split("=", 1) for line in (checkout / "output").read_text().splitlines())
    assert outputs == {"place": place, **digests}
    attested = [
        one["with"] for one in files.load("images")["jobs"]["publish"]["steps"] if "attest-build" in one.get("uses", "")
    ]
    assert [one["subject-digest"] for one in attested] == [f"${{{{ steps.build.outputs.{name} }}}}" for name in digests]
    for name, digest in digests.items():
        assert f"skopeo copy --preserve-digests oci:.images/{name} docker://{place}/{name}:abc" in stand_ins.calls
        assert f"cosign sign --yes {place}/{name}@{digest}" in stand_ins.calls
        attest = f"cosign attest --yes --type cyclonedx --predicate {name}.cdx.json {place}/{name}@{digest}"
        assert attest in stand_ins.calls
    assert (checkout / "summary").read_text() == "".join(f"`{place}/{name}@{digest}`\n" for name, digest in digests.items())


def declared() -> Iterator[str]:
    """Return the steps that this file's tests run, from their declarations and parameters."""
    for test in _DECLARED:
        given = [mark.args for mark in getattr(globals()[test], "pytestmark", ()) if mark.name == "parametrize"]
        for chosen in itertools.product(*(values for _, values in given)):
            parameters: dict[str, Any] = {}
            for (names, _), value in zip(given, chosen, strict=True):
                values = getattr(value, "values", value) if not isinstance(names, str) else (value,)
                parameters.update(zip([names] if isinstance(names, str) else names, values, strict=True))
            yield from expanded(test, parameters)


def test_every_step_that_has_a_script_is_run() -> None:
    assert {str(step) for step in files.steps() if step.script} ^ set(declared()) == set()
