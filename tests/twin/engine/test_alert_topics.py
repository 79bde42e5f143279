"""The SNS topics that a stack names are in the twin's account before the program runs."""

from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests import aws_environment
from twin.engine import alert_topics

REGION = "us-west-2"
STACK = """
config:
  aws:region: us-west-2
  triton-eks:worker: {alarmTopicArn: "arn:aws:sns:us-west-2:123456789012:alerts"}
  triton-eks:monitoring:
    receivers: ["arn:aws:sns:us-west-2:123456789012:more-alerts", "arn:aws:sqs:us-west-2:123456789012:no-topic"]
  triton-eks:cost: {reviewed: "2026-11-22", topicArn: "arn:aws:sns:us-west-2:123456789012:alerts"}
"""


def test_every_topic_is_made_once_and_what_is_no_topic_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment.use_none_of_the_developers(monkeypatch, tmp_path)
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(STACK)
    with mock_aws():
        for _ in range(2):
            alert_topics.create(f"https://sns.{REGION}.amazonaws.com", REGION, file)
        topics = boto3.client("sns", region_name=REGION).list_topics()["Topics"]
    assert sorted(topic["TopicArn"].rpartition(":")[2] for topic in topics) == ["alerts", "more-alerts"]


def test_a_stack_file_without_topics_makes_none() -> None:
    assert alert_topics.names_in({"a": [1, None, "arn:aws:sns"], "b": {"c": True}}) == set()
