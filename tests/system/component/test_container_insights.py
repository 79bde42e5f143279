"""Container Insights: its registrations, its agent's permissions, and the node resources that it uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spec.settings import Settings, load
from spec.settings.scheduling import add_ons, pods
from spec.versions import KUBERNETES, PROJECT
from tests.bootstrap import aws_calls
from tests.bootstrap.roles import PREVIEW, deploy
from tests.paths import ROOT
from tests.spec.existing_config import IN_A_CLUSTER
from tests.spec.stack_config import complaints
from tests.system.component import iam_lint
from tests.system.component.engine.account import fresh_account, seed_roles
from tests.system.component.engine.analyzer import running
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY, deployed, required_config
from twin.aws.base.clients import Clients
from twin.aws.iam.authorization import refusals

STACK = "dev"
NAME = "amazon-cloudwatch-observability"
LOGS = {"containers": {"retentionDays": 30}, "containerInsights": {"retentionDays": 7}}
ADDON = "aws:eks/addon:Addon"


def config() -> dict[str, Any]:
    return {**required_config(ROOT, STACK), f"{PROJECT}:logs": LOGS}


@pytest.fixture(scope="module")
def settings() -> Settings:
    return load(config(), STACK, today=TODAY)


@pytest.fixture(scope="module")
def watched(settings: Settings) -> Recording:
    with fresh_account():
        clients = Clients(settings.region)
        seed_roles(clients, settings.cluster)
        return deployed(settings, config(), clients, preview=False)


def test_the_events_are_kept_as_long_as_asked_and_encrypted_with_the_key_of_the_logs(watched: Recording) -> None:
    group = watched.one("aws:cloudwatch/logGroup:LogGroup", "container-insights-log-group")
    assert group.inputs["name"] == "/aws/containerinsights/triton-dev/performance"
    assert group.inputs["retentionInDays"] == 7
    other = watched.one("aws:cloudwatch/logGroup:LogGroup", "container-logs-log-group")
    assert group.inputs["kmsKeyId"] == other.inputs["kmsKeyId"]


def test_the_agent_measures_nodes_and_pods_and_leaves_logs_traces_and_gpus_to_others(watched: Recording) -> None:
    addon = watched.one(ADDON, "container-insights-addon").inputs
    assert (addon["addonName"], addon["addonVersion"]) == (NAME, KUBERNETES["1.35"].addons[NAME])
    values = json.loads(addon["configurationValues"])
    assert values["agent"]["config"] == {
        "logs": {
            "metrics_collected": {"kubernetes": {"enhanced_container_insights": True, "accelerated_compute_metrics": False}}
        }
    }
    assert {key for key, value in values.items() if value == {"enabled": False}} == {
        "containerLogs",
        "dcgmExporter",
        "neuronMonitor",
    }
    (association,) = addon["podIdentityAssociations"]
    assert association["serviceAccount"] == "cloudwatch-agent"


def test_its_role_is_the_agents_alone_and_writes_to_its_group_alone(watched: Recording) -> None:
    role = watched.one("aws:iam/role:Role", "container-insights-agent-role").inputs
    (trust,) = json.loads(role["assumeRolePolicy"])["Statement"]
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    conditions = json.dumps(trust["Condition"])
    assert '"amazon-cloudwatch"' in conditions and '"cloudwatch-agent"' in conditions
    policy = watched.one("aws:iam/rolePolicy:RolePolicy", "container-insights-agent-policy").inputs["policy"]
    statements = json.loads(policy)["Statement"]
    assert statements[0]["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert statements[0]["Resource"] == [
        "arn:aws:logs:us-west-2:123456789012:log-group:/aws/containerinsights/triton-dev/performance:*"
    ]
    assert statements[1]["Action"] == ["ec2:DescribeTags", "ec2:DescribeVolumes"]
    found = iam_lint.Document("agent", "aws:iam/rolePolicy:RolePolicy", tuple(statements))
    assert [str(finding) for finding in iam_lint.lint(found)] == []
    attached = [item.name for item in watched.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")]
    assert [name for name in attached if name.startswith("container-insights")] == []


def test_the_roles_of_the_workflows_may_make_and_read_all_of_it(watched: Recording) -> None:
    made = aws_calls.of_recording(watched)
    asked = list(aws_calls.calls(made))
    (passed,) = [call for call in asked if call.action == "iam:PassRole" and "container-insights" in call.resource]
    assert passed.context == {"iam:PassedToService": "pods.eks.amazonaws.com"}
    assert list(refusals(deploy("dev"), asked)) == []
    assert list(refusals(PREVIEW, aws_calls.reads(made))) == []


def test_its_pods_are_counted_on_every_node_with_what_they_ask_for(watched: Recording, settings: Settings) -> None:
    assert {item.inputs["addonName"] for item in watched.of_type(ADDON)} == set(add_ons.addons(settings))
    for gpu in (False, True):
        (agent,) = [one for one in pods.daemons(settings, gpu=gpu) if one.name == "cloudwatch-agent"]
        assert (agent.request.millis, agent.request.mib) == (250, 128)
    (manager,) = [one for one in pods.on_system_nodes(settings) if one.name.startswith(NAME)]
    assert (manager.count, manager.request.millis, manager.request.mib) == (1, 100, 64)


def test_no_policy_is_violated(watched: Recording) -> None:
    with running(ROOT / "policies") as pack:
        day = {"asOf": TODAY.isoformat()}
        pack.configure({"eks-version-supported": day, "eks-version-ageing": day})
        told = [str(found) for found in pack.judge(watched)]
    assert [one for one in told if "container-insights" in one] == []


def test_a_cluster_that_was_there_has_its_owners_add_ons() -> None:
    assert complaints({**IN_A_CLUSTER, "logs": LOGS}) == [
        "logs.containerInsights: is an add-on of the cluster, and those of a cluster that is there already are its owner's; "
        "remove the section"
    ]
