"""The request queue and the workers, in the stacks that have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from spec.queue_timing import grace_seconds
from spec.settings.relations.worker import concurrency
from tests.system.component.engine.recording import Registration
from tests.system.component.engine.stack_run import StackRun

QUEUE, ALARM = "aws:sqs/queue:Queue", "aws:cloudwatch/metricAlarm:MetricAlarm"
ROLE, ROLE_POLICY = "aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy"
ACCOUNT = "123456789012"


@pytest.fixture(params=["local", "staging", "prod"])
def with_workers(request: pytest.FixtureRequest, stack_runs: Callable[[str], StackRun]) -> StackRun:
    """Return each stack with workers."""
    return stack_runs(request.param)


def queues(run: StackRun) -> tuple[Registration, Registration]:
    """Return the queue and its dead-letter queue."""
    return run.up.one(QUEUE, "requests-queue"), run.up.one(QUEUE, "requests-dead-letters")


def statements(registration: Registration) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(registration.checked["policy"])["Statement"]
    return found


def test_a_stack_without_the_section_has_nothing_of_it(stack_run: StackRun) -> None:
    there = [item.name for item in stack_run.up.registrations if item.type == QUEUE or item.name.startswith("worker")]
    assert bool(there) is (stack_run.settings.worker is not None)


def test_poison_goes_to_a_queue_that_takes_it_from_no_other_and_keeps_it_longest(with_workers: StackRun) -> None:
    queue, dead = queues(with_workers)
    assert json.loads(queue.checked["redrivePolicy"]) == {"deadLetterTargetArn": dead.outputs["arn"], "maxReceiveCount": 5}
    allowed = with_workers.up.one("aws:sqs/redriveAllowPolicy:RedriveAllowPolicy").checked
    assert allowed["queueUrl"] == dead.id
    assert json.loads(allowed["redriveAllowPolicy"]) == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": [queue.outputs["arn"]],
    }
    assert (queue.checked["messageRetentionSeconds"], dead.checked["messageRetentionSeconds"]) == (345_600, 1_209_600)


def test_a_message_may_be_as_large_as_sqs_takes_wherever_it_goes(with_workers: StackRun) -> None:
    assert [queue.checked["maxMessageSize"] for queue in queues(with_workers)] == [1_048_576, 1_048_576]


def test_messages_are_encrypted_with_our_key_and_never_in_the_clear(with_workers: StackRun) -> None:
    key = with_workers.up.one("aws:kms/key:Key", "requests-encryption-key").outputs["arn"]
    for queue in queues(with_workers):
        assert queue.checked["kmsMasterKeyId"] == key
        (policy,) = [
            item
            for item in with_workers.up.of_type("aws:sqs/queuePolicy:QueuePolicy")
            if item.checked["queueUrl"] == queue.id
        ]
        (tls_only,) = statements(policy)
        assert (tls_only["Effect"], tls_only["Action"], tls_only["Resource"]) == ("Deny", "sqs:*", queue.outputs["arn"])
        assert tls_only["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_message_is_hidden_for_longer_than_anybody_works_on_it(with_workers: StackRun) -> None:
    worker = with_workers.settings.worker
    assert worker is not None
    hidden = queues(with_workers)[0].checked["visibilityTimeoutSeconds"]
    # Two batches: of 8 in local, and elsewhere of 16 for each of the two instances of `filetype`.
    assert concurrency(worker, with_workers.settings) == (16 if with_workers.stack == "local" else 64)
    assert hidden == 2 * worker.longest_request_seconds + grace_seconds(worker.longest_request_seconds)


def test_somebody_is_told_of_old_messages_and_of_any_that_is_dead(with_workers: StackRun) -> None:
    said = {
        (item.checked["metricName"], item.checked["dimensions"]["QueueName"], item.checked["threshold"])
        for item in with_workers.up.of_type(ALARM)
    }
    name = f"{with_workers.settings.cluster_name}-requests"
    assert said == {
        ("ApproximateAgeOfOldestMessage", name, 900),
        ("ApproximateNumberOfMessagesVisible", f"{name}-dead", 0),
    }


def test_a_worker_may_use_its_queue_and_its_bucket_and_nothing_else(with_workers: StackRun) -> None:
    role = with_workers.up.one(ROLE, "worker-role-pods")
    (trust,) = json.loads(role.checked["assumeRolePolicy"])["Statement"]
    assert trust["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-arn": with_workers.up.one("aws:eks/cluster:Cluster").outputs["arn"],
        "aws:RequestTag/kubernetes-namespace": "triton-worker",
        "aws:RequestTag/kubernetes-service-account": "triton-worker",
    }
    (policy,) = [item for item in with_workers.up.of_type(ROLE_POLICY) if item.checked["role"] == role.id]
    queue = queues(with_workers)[0].outputs["arn"]
    bucket = with_workers.up.one("aws:s3/bucket:Bucket", "requests-results-bucket").outputs["arn"]
    key = with_workers.up.one("aws:kms/key:Key", "requests-encryption-key").outputs["arn"]
    assert {one["Sid"]: sorted(one["Resource"]) for one in statements(policy)} == {
        "WorkOnRequests": [queue],
        "FindResults": [bucket],
        "ReadInputsAndResults": [f"{bucket}/inputs/*", f"{bucket}/results/*"],
        "WriteResultsAndFailures": [f"{bucket}/failures/*", f"{bucket}/results/*"],
        "ForgetFailures": [f"{bucket}/failures/*"],
        "UseTheKeyThroughQueueAndBucket": [key],
    }
    (work,) = [one["Action"] for one in statements(policy) if one["Sid"] == "WorkOnRequests"]
    assert sorted(work) == ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"]


def test_s3_refuses_a_result_that_is_written_without_a_condition(with_workers: StackRun) -> None:
    once = [one for one in statements(with_workers.up.one("aws:s3/bucketPolicy:BucketPolicy", "requests-results-policy"))]
    (found,) = [one for one in once if one["Sid"] == "ResultsAreWrittenOnce"]
    assert found["Condition"]["Null"] == {"s3:if-none-match": "true"}
    assert [resource.partition("/")[2] for resource in found["Resource"]] == ["results/*"]


def test_the_deployment_names_the_queue_that_is_made(with_workers: StackRun) -> None:
    """The program computes the Deployment's values before the queue exists."""
    deployments = {
        item.checked["metadata"]["name"]: item for item in with_workers.preview.of_type("kubernetes:apps/v1:Deployment")
    }
    (container,) = deployments["triton-worker"].checked["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    queue = queues(with_workers)[0]
    assert env["WORKER_QUEUE_URL"] == queue.outputs["url"]
    assert env["WORKER_VISIBILITY_SECONDS"] == str(queue.checked["visibilityTimeoutSeconds"])
    assert (
        f"arn:aws:s3:::{env['WORKER_BUCKET']}"
        == with_workers.up.one("aws:s3/bucket:Bucket", "requests-results-bucket").outputs["arn"]
    )
