"""A GitHub Actions runner in the VPC: brought up and destroyed on moto, the jobs that it accepts, its role's permissions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from spec.settings import load
from spec.versions import PROJECT
from tests.bootstrap import aws_calls
from tests.bootstrap.roles import PREVIEW, deploy
from tests.paths import ROOT
from tests.spec.stack_config import complaints
from tests.spec.stack_config import settings as stack_settings
from tests.system.component import iam_lint
from tests.system.component.engine.account import fresh_account, seed_roles, seed_topics
from tests.system.component.engine.lifecycle import Refresh, destroy, refresh
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, deployed, required_config
from twin.aws import table
from twin.aws.base.clients import Clients
from twin.aws.iam.authorization import refusals

STACK = "dev"
CONNECTION = "arn:aws:codeconnections:us-west-2:123456789012:connection/01234567-89ab-cdef-0123-456789abcdef"
OLD_CONNECTION = CONNECTION.replace("codeconnections", "codestar-connections")
RUNNER = {"repository": "example/platform", "connectionArn": CONNECTION, "actors": [583231, 9919]}


@dataclass(frozen=True)
class Lived:
    """A stack with a runner, and the CodeBuild projects while the stack existed and afterwards."""

    up: Recording
    refreshed: Refresh
    after: dict[str, Any] | None


def runner_config() -> dict[str, Any]:
    """Return a stack without optional sections, except a private endpoint and a runner."""
    found: dict[str, Any] = required_config(ROOT, STACK)
    cluster = {key: value for key, value in found[f"{PROJECT}:cluster"].items() if key != "publicAccessCidrs"}
    return {**found, f"{PROJECT}:cluster": {**cluster, "endpoint": "private", "apiAccess": {"runner": RUNNER}}}


@pytest.fixture(scope="module")
def lived() -> Lived:
    config = runner_config()
    with fresh_account():
        clients = Clients("us-west-2")
        settings = load(config, STACK, today=TODAY)
        assert [str(told) for told in settings.warnings if "apiAccess" in str(told)] == []
        seed_roles(clients, settings.cluster)
        seed_topics(clients, config)
        up = deployed(settings, config, clients, preview=False)
        refreshed = refresh(clients, up)
        destroy(clients, up)
        project = up.one("aws:codebuild/project:Project")
        after = table.handler(project.type).read(clients, project.id, dict(project.outputs))
    return Lived(up, refreshed, after)


def test_the_project_comes_and_goes_with_the_stack_and_does_not_drift(lived: Lived) -> None:
    assert (lived.up.one("aws:codebuild/project:Project").checked["name"], lived.after) == ("triton-dev-runner", None)
    assert (lived.refreshed.outputs, lived.refreshed.inputs) == ([], [])


def test_it_is_in_the_private_subnets_and_of_one_repository(lived: Lived) -> None:
    project = lived.up.one("aws:codebuild/project:Project").checked
    assert project["source"] == {
        "type": "GITHUB",
        "location": "https://github.com/example/platform.git",
        "auth": {"type": "CODECONNECTIONS", "resource": CONNECTION},
    }
    private = lived.up.one("aws:eks/nodeGroup:NodeGroup", "nodes-system-group").checked["subnetIds"]
    assert sorted(project["vpcConfig"]["subnets"]) == sorted(private)
    assert "privilegedMode" not in project["environment"]
    assert lived.up.one("aws:codebuild/webhook:Webhook").checked["projectName"] == "triton-dev-runner"


def starts(lived: Lived, actor: int, workflow: str) -> bool:
    """Return whether CodeBuild starts the runner for a job: all filters of a group have to match, anywhere in the value.

    https://docs.aws.amazon.com/codebuild/latest/userguide/github-webhook.html
    """
    values = {"EVENT": "WORKFLOW_JOB_QUEUED", "ACTOR_ACCOUNT_ID": str(actor), "WORKFLOW_NAME": workflow}
    groups = lived.up.one("aws:codebuild/webhook:Webhook").checked["filterGroups"]
    return any(all(re.search(one["pattern"], values[one["type"]]) for one in group["filters"]) for group in groups)


@pytest.mark.parametrize("actor", [58323, 583232, 5832310, 1583231, 99199, 1])
def test_only_jobs_of_the_listed_accounts_start_it(lived: Lived, actor: int) -> None:
    assert [starts(lived, listed, "deploy") for listed in (583231, 9919)] == [True, True]
    assert not starts(lived, actor, "deploy")


WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
}


def asking(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs that run on the runner, also in workflows that this workflow calls."""
    called = [WORKFLOWS[job["uses"].rpartition("/")[2]] for job in workflow["jobs"].values() if "uses" in job]
    own = [job for job in workflow["jobs"].values() if "codebuild-" in str(job.get("runs-on"))]
    return own + [job for other in called for job in asking(other)]


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_only_workflows_whose_jobs_ask_for_it_start_it(lived: Lived, workflow: dict[str, Any]) -> None:
    # YAML reads the key `on` as true. GitHub reports a called workflow's job under its caller's name.
    assert starts(lived, 583231, workflow["name"]) == bool(asking(workflow) and "workflow_call" not in workflow[True])
    assert not (asking(workflow) and "pull_request" in workflow[True])
    assert not starts(lived, 583231, f"not {workflow['name']}")


def test_no_job_of_the_workflows_is_cut_off_by_it(lived: Lived) -> None:
    on_it = [job["timeout-minutes"] for name in ("deploy-stack.yml", "drift.yml") for job in asking(WORKFLOWS[name])]
    assert len(on_it) == 3
    start = 15
    assert lived.up.one("aws:codebuild/project:Project").checked["buildTimeout"] >= max(on_it) + start


def test_its_group_reaches_the_api_server_and_nothing_reaches_it(lived: Lived) -> None:
    group = lived.up.one("aws:ec2/securityGroup:SecurityGroup", "runner-security-group")
    assert lived.up.one("aws:codebuild/project:Project").checked["vpcConfig"]["securityGroupIds"] == [group.id]
    rules = lived.up.of_type("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    (to_api,) = [rule.checked for rule in rules if rule.checked.get("referencedSecurityGroupId") == group.id]
    assert (to_api["ipProtocol"], to_api["fromPort"], to_api["toPort"]) == ("tcp", 443, 443)
    assert (
        to_api["securityGroupId"] == lived.up.one("aws:eks/cluster:Cluster").outputs["vpcConfig"]["clusterSecurityGroupId"]
    )
    assert [rule.name for rule in rules if rule.checked["securityGroupId"] == group.id] == []
    assert lived.up.exports["apiReachedBy"] == ["the nodes", "jobs of example/platform on the runner in the VPC"]


def test_its_role_is_codebuilds_for_this_project_and_may_not_deploy(lived: Lived) -> None:
    (trust,) = json.loads(lived.up.one("aws:iam/role:Role", "runner-role").checked["assumeRolePolicy"])["Statement"]
    assert trust["Principal"] == {"Service": "codebuild.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "123456789012"},
        "ArnLike": {"aws:SourceArn": "arn:aws:codebuild:us-west-2:123456789012:project/triton-dev-runner"},
    }
    policy = lived.up.one("aws:iam/rolePolicy:RolePolicy", "runner-policy").checked["policy"]
    statements = {one["Sid"]: one for one in json.loads(policy)["Statement"]}
    assert statements.keys() == {
        *("WriteLog", "SeeTheVpc", "BeInTheVpc", "LeaveTheVpc", "UseInterfaces", "AskForTheRepository")
    }
    assert statements["WriteLog"]["Resource"] == [
        "arn:aws:logs:us-west-2:123456789012:log-group:/aws/codebuild/triton-dev/runner:*"
    ]
    subnets = lived.up.one("aws:codebuild/project:Project").checked["vpcConfig"]["subnets"]
    assert statements["UseInterfaces"]["Condition"] == {
        "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
        "ArnEquals": {"ec2:Subnet": [f"arn:aws:ec2:us-west-2:123456789012:subnet/{id}" for id in subnets]},
    }
    assert statements["AskForTheRepository"]["Resource"] == [CONNECTION]
    document = iam_lint.Document("runner", "aws:iam/rolePolicy:RolePolicy", tuple(statements.values()))
    assert [str(finding) for finding in iam_lint.lint(document)] == []


def test_the_roles_of_the_workflows_may_make_and_read_all_of_it(lived: Lived) -> None:
    made = aws_calls.of_recording(lived.up)
    assert list(refusals(deploy("dev"), aws_calls.calls(made))) == []
    assert list(refusals(PREVIEW, aws_calls.reads(made))) == []


def test_who_may_start_it_is_required() -> None:
    anybodys = {key: value for key, value in RUNNER.items() if key != "actors"}
    assert complaints({"cluster.apiAccess": {"runner": anybodys}}) == [
        "cluster.apiAccess.runner.actors: is missing; give ids of the GitHub accounts whose jobs may start the runner"
    ]


def test_without_a_way_to_github_there_is_no_runner() -> None:
    told = complaints({"cluster.apiAccess": {"runner": RUNNER}, "network.nat": "none", "network.endpoints": "full"})
    assert (
        "cluster.apiAccess.runner: reaches GitHub through NAT alone; use network.nat: single, or a runner elsewhere" in told
    )


def test_its_connection_is_of_the_account_and_of_any_region() -> None:
    def named(connection: str) -> dict[str, Any]:
        return {"cluster.apiAccess": {"runner": {**RUNNER, "connectionArn": connection}}}

    def told(connection: str) -> list[str]:
        return complaints(named(connection))

    stack_settings(named(CONNECTION.replace("us-west-2", "eu-west-1")))
    assert told(CONNECTION.replace("us-west-2", "eu-west-9")) == [
        "cluster.apiAccess.runner.connectionArn: there is no region 'eu-west-9'; did you mean 'eu-west-3'? give the ARN as "
        "AWS shows it"
    ]
    assert told(CONNECTION.replace("123456789012", "210000000000")) == [
        "cluster.apiAccess.runner.connectionArn: it is of account 210000000000 and the stack of 123456789012 "
        "(aws:allowedAccountIds); give one of the same account"
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"repository": "platform"}, "repository: 'platform' is not a GitHub repository; give one like ORG/REPO"),
        ({"actors": []}, "actors: is empty; give at least one"),
        (
            {"actors": [583231, "octocat"]},
            "actors[1]: 'octocat' is text; give the number that `gh api users/LOGIN --jq .id` prints",
        ),
        ({"actors": [0]}, "actors[0]: 0 is a number; give the number that `gh api users/LOGIN --jq .id` prints"),
        ({"actors": [True]}, "actors[0]: true is a truth value; give the number that `gh api users/LOGIN --jq .id` prints"),
        (
            {"connectionArn": "example"},
            "connectionArn: 'example' is not the ARN of a connection; `aws codeconnections list-connections` prints it",
        ),
        (
            {"connectionArn": OLD_CONNECTION},
            f"connectionArn: '{OLD_CONNECTION}' is a connection under its old "
            "name (before July 2024), to which the roles of bootstrap/ have no rights: make a new one in the console of "
            "CodeBuild, and give its ARN; `aws codeconnections list-connections` prints it",
        ),
    ],
)
def test_a_mistake_is_said_where_it_is(changes: dict[str, Any], said: str) -> None:
    assert complaints({"cluster.apiAccess": {"runner": {**RUNNER, **changes}}}) == [f"cluster.apiAccess.runner.{said}"]
