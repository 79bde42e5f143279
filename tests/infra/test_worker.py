"""Values that the program computes for the workers: times, concurrency, scaling."""

from __future__ import annotations

from typing import Any

import pytest

from infra.serving.queue_trigger import authentication_spec
from infra.serving.worker import reply_url, values
from infra.serving.worker_scaling import scaling_spec
from spec.names import queue_url
from spec.queue_timing import grace_seconds, visibility_timeout
from spec.settings.relations.worker import concurrency, input_mib
from spec.settings.worker import Worker
from tests.infra.access import stack
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_worker import BY_HAND, KEDA

URL = "https://sqs.us-west-2.amazonaws.com/123456789012/triton-staging-requests"
SERVING = {"device": "cpu", "sloP95Ms": 100, "expectedRate": 1, "peakRate": 2}


def worker(**changes: Any) -> Worker:
    found = settings({"worker": {**KEDA, **changes}}).worker
    assert found is not None
    return found


def scaling(**changes: Any) -> dict[str, Any]:
    return scaling_spec(stack(), worker(**changes), 16)


@pytest.mark.parametrize(
    ("longest", "at_a_time", "grace", "visibility"),
    [(60, 16, 90, 60 + 60 + 90), (60, 5, 90, 120 + 60 + 90), (1, 1, 31, 10 + 1 + 31), (3000, 1, 3030, 36030)],
)
def test_a_message_is_hidden_longer_than_its_wait_its_request_and_the_end_of_its_worker(
    longest: int, at_a_time: int, grace: int, visibility: int
) -> None:
    assert (grace_seconds(longest), visibility_timeout(longest, at_a_time)) == (grace, visibility)
    assert visibility < 43_200


def test_the_concurrency_is_two_batches_for_each_instance_unless_it_is_given() -> None:
    models = {"a": {**SERVING, "instances": 2, "maxBatchSize": 4}, "b": {**SERVING, "instances": 1}}
    both = settings({"models.serving": models, "models.release": None})
    assert concurrency(worker(), both) == 2 * 2 * 4
    unsaid = settings({"models.serving": {"b": models["b"]}, "models.release": None})
    assert concurrency(worker(), unsaid) == 2 * 8
    assert concurrency(worker(), settings({"models.serving": {}})) == 2 * 8
    assert concurrency(worker(concurrency=3), both) == 3


def test_objects_have_a_quarter_of_the_memory_that_messages_leave() -> None:
    stack = settings({"models.serving": {}})
    assert input_mib(worker(memoryMiB=1024, concurrency=32), stack) == (1024 - 200 - 5 * (32 + 10)) // 4 == 153


def test_instances_on_gpus_count_once_for_each_gpu_of_a_pod() -> None:
    model = {**SERVING, "device": "gpu", "gpuMemoryMiB": 900, "instances": 2, "maxBatchSize": 16}
    four = {"triton.pool": "p4d", "triton.gpus": 4, "gpu.pools[1].desired": 2, "models.release": None}
    assert concurrency(worker(), settings({**four, "models.serving": {"a": model}})) == 2 * 16 * 2 * 4


def test_keda_owns_the_number_of_pods_and_the_chart_renders_none() -> None:
    given = values(stack("staging"), worker(), settings({"worker": KEDA}))
    assert (given["autoscaling"], "replicaCount" in given) == ({"owner": "external"}, False)
    by_hand = settings({"worker": BY_HAND}).worker
    assert by_hand is not None
    given = values(stack("staging"), by_hand, settings({"worker": BY_HAND}))
    assert (given["replicaCount"], "autoscaling" in given) == (2, False)


def test_every_value_of_the_trigger_is_text_and_names_region_queue_and_identity() -> None:
    spec = scaling()
    assert spec["triggers"] == [
        {
            "type": "aws-sqs-queue",
            "name": "requests",
            "metricType": "AverageValue",
            "authenticationRef": {"name": "triton-worker"},
            "metadata": {
                "queueURL": URL,
                "queueLength": "16",
                "activationQueueLength": "0",
                "awsRegion": "us-west-2",
                "scaleOnInFlight": "true",
            },
        }
    ]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 10)
    assert spec["scaleTargetRef"] == {"name": "triton-worker"}
    assert authentication_spec("arn:role")["podIdentity"] == {"provider": "aws", "roleArn": "arn:role"}


def test_an_aws_of_ones_own_is_told_to_workers_and_keda() -> None:
    own = {"awsEndpoint": "http://127.0.0.1:5000"}
    assert scaling(**own)["triggers"][0]["metadata"]["awsEndpoint"] == "http://127.0.0.1:5000"
    given = values(stack("local"), worker(**own), settings({"worker": KEDA}))
    assert given["aws"] == {"region": "us-west-2", "endpoint": "http://127.0.0.1:5000"}


def test_the_url_of_a_queue_is_that_of_its_partition() -> None:
    assert queue_url("q", "123456789012", "cn-north-1", "aws-cn") == "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q"
    assert reply_url("arn:aws:sqs:us-west-2:210987654321:answers") == (
        "https://sqs.us-west-2.amazonaws.com/210987654321/answers"
    )
