"""The twin's account has the stack's roles and SNS topics before the program runs."""

from pathlib import Path

import boto3
import pytest

from tests import aws_environment
from tests.modelctl.servers import moto_server
from twin.engine import account

REGION = "us-west-2"
ADMIN = "arn:aws:iam::123456789012:role/teams/platform-admin"
ROLLOUTS = "arn:aws:iam::123456789012:role/triton-rollouts"
STACK = f"""
config:
  aws:region: us-west-2
  triton-eks:cluster: {{adminRoleArns: ["{ADMIN}", 7, "nobody"], rolloutRoleArns: ["{ROLLOUTS}"]}}
  triton-eks:worker: {{alarmTopicArn: "arn:aws:sns:us-west-2:123456789012:alerts"}}
  triton-eks:monitoring:
    receivers: ["arn:aws:sns:us-west-2:123456789012:more-alerts", "arn:aws:sqs:us-west-2:123456789012:no-topic"]
  triton-eks:cost: {{reviewed: "2026-11-22", topicArn: "arn:aws:sns:us-west-2:123456789012:alerts"}}
"""


def test_every_role_and_topic_is_made_once_and_what_is_neither_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(STACK)
    with moto_server() as url:
        for _ in range(2):
            account.create(url, REGION, "prod", file)
        roles = boto3.client("iam", region_name=REGION, endpoint_url=url).list_roles()["Roles"]
        topics = boto3.client("sns", region_name=REGION, endpoint_url=url).list_topics()["Topics"]
    assert sorted(role["Arn"] for role in roles) == [ADMIN, ROLLOUTS]
    assert sorted(topic["TopicArn"].rpartition(":")[2] for topic in topics) == ["alerts", "more-alerts"]


def test_a_stack_file_without_topics_makes_none() -> None:
    assert account.topics_in({"a": [1, None, "arn:aws:sns"], "b": {"c": True}}) == set()


@pytest.mark.parametrize(("boundary", "policies"), [("", ["triton-eks-boundary-prod"]), ("false", [])])
def test_a_stack_that_has_no_boundary_gets_none(
    boundary: str, policies: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    file = tmp_path / "Pulumi.prod.yaml"
    keys = f"  triton-eks:permissionsBoundary: {boundary}\n" if boundary else ""
    file.write_text(f"config:\n  aws:region: us-west-2\n  triton-eks:environment: prod\n{keys}")
    with moto_server() as url:
        account.create(url, REGION, "prod", file)
        local = boto3.client("iam", region_name=REGION, endpoint_url=url).list_policies(Scope="Local")["Policies"]
    assert [policy["PolicyName"] for policy in local] == policies
