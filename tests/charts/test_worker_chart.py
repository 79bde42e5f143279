"""The workers' chart: its objects with the program's computed values, the values that it refuses, its documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from infra.serving.worker import values
from spec.helm_values import merge, value_files
from tests.charts import pod_security, values_reference
from tests.charts.rendering import ENVIRONMENTS, only
from tests.charts.schemas import KUBERNETES_MINORS, assert_valid
from tests.infra.access import stack
from tests.paths import ROOT
from tests.pod_identity import assert_pod
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_worker import BY_HAND, KEDA
from twin.releases import helm
from twin.releases.helm import HelmError
from worker.settings import from_environment

CHART = ROOT / "charts" / "worker"
VALUES_TEXT = (CHART / "values.yaml").read_text()
URL = "https://sqs.us-west-2.amazonaws.com/123456789012/triton-staging-requests"


def computed(section: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the program computes for a stack with this section."""
    read = settings({"worker": section})
    assert read.worker is not None
    return values(stack("staging"), read.worker, read)


def render(given: dict[str, Any], environment: str = "staging") -> list[dict[str, Any]]:
    files = [ROOT / path for path in value_files("worker", environment, ROOT)]
    return helm.render(CHART, name="triton-worker", namespace="triton-worker", values=given, value_files=files)


def container(given: dict[str, Any]) -> dict[str, Any]:
    (found,) = only(render(given), "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("section", [KEDA, BY_HAND, {**KEDA, "awsEndpoint": "http://127.0.0.1:5000"}])
def test_every_object_is_valid_for_every_minor_and_restricted(environment: str, section: dict[str, Any]) -> None:
    objects = render(computed(section), environment)
    assert [item["kind"] for item in objects] == ["NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Deployment"]
    for minor in KUBERNETES_MINORS:
        assert_valid(objects, minor)
    deployment = only(objects, "Deployment")
    assert deployment["metadata"]["name"] == "triton-worker"
    assert pod_security.violations(deployment["spec"]["template"]["spec"]) == []


@pytest.mark.parametrize(
    ("spread", "topologies"),
    [
        ({}, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
        ({"spread": {"hosts": False}}, ["topology.kubernetes.io/zone"]),
    ],
)
def test_workers_prefer_other_zones_and_other_hosts_unless_a_host_would_be_started_for_each(
    spread: dict[str, Any], topologies: list[str]
) -> None:
    constraints = only(render(computed(KEDA) | spread), "Deployment")["spec"]["template"]["spec"][
        "topologySpreadConstraints"
    ]
    assert [one["topologyKey"] for one in constraints] == topologies
    assert {one["whenUnsatisfiable"] for one in constraints} == {"ScheduleAnyway"}


def test_replicas_are_rendered_only_where_nothing_else_owns_them() -> None:
    assert "replicas" not in only(render(computed(KEDA)), "Deployment")["spec"]
    assert only(render(computed(BY_HAND)), "Deployment")["spec"]["replicas"] == 2


def test_the_worker_understands_the_environment_that_the_chart_gives_it() -> None:
    reply = "arn:aws:sqs:us-west-2:123456789012:answers"
    given = container(computed({**KEDA, "replyQueueArns": [reply]}))
    variables = {entry["name"]: entry.get("value", "10.0.0.1") for entry in given["env"]}
    listen = variables.pop("WORKER_LISTEN").replace("$(POD_IP)", variables["POD_IP"])
    told = from_environment({**variables, "WORKER_LISTEN": listen})
    assert (told.queue_url, told.bucket, told.concurrency, told.input_mib) == (URL, stack().request_bucket, 16, 45)
    assert told.triton_url == "dns:///triton-headless.triton.svc.cluster.local:8001"
    assert told.reply_queues == {"https://sqs.us-west-2.amazonaws.com/123456789012/answers"}
    assert (told.visibility_seconds, told.poll_seconds, told.request_seconds) == (210, 20, 60)
    assert given["command"] == ["python", "-m", "worker"]


def test_the_worker_is_told_which_fleet_has_a_model() -> None:
    fleets = {"classify": ["dns:///triton-g5-headless.triton.svc.cluster.local:8001"]}
    given = computed(KEDA)
    given["triton"] = {**given["triton"], "fleets": fleets}
    variables = {entry["name"]: entry.get("value", "10.0.0.1") for entry in container(given)["env"]}
    told = from_environment({**variables, "WORKER_LISTEN": "127.0.0.1:1"})
    assert {model: list(urls) for model, urls in told.triton_fleets.items()} == fleets


def test_a_pod_has_the_time_that_its_worker_takes_to_end() -> None:
    pod = only(render(computed(KEDA)), "Deployment")["spec"]["template"]["spec"]
    env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    assert int(env["WORKER_GRACE_SECONDS"]) == 20 + 60 + 10
    assert pod["terminationGracePeriodSeconds"] == int(env["WORKER_GRACE_SECONDS"]) + 5


def test_the_network_policy_lets_out_to_triton_and_aws_and_in_from_monitoring() -> None:
    spec = only(render(computed({**KEDA, "awsEndpoint": "http://127.0.0.1:5000"})), "NetworkPolicy")["spec"]
    assert [port["port"] for rule in spec["egress"] for port in rule["ports"]] == [53, 53, 8001, 80, 443, 5000]
    (agent,) = [rule["to"] for rule in spec["egress"] if rule["ports"][0]["port"] == 80]
    assert agent == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == [8080]


def test_a_pod_gets_credentials_also_when_its_association_takes_effect_after_its_start() -> None:
    objects = render(computed(KEDA))
    assert_pod(only(objects, "Deployment")["spec"]["template"]["spec"])
    assert "annotations" not in only(objects, "ServiceAccount")["metadata"]


def test_everything_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(HelmError) as caught:
        helm.render(CHART, name="w", namespace="w", values={})
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        *("aws.region", "bucket", "concurrency", "image.digest", "inputMiB", "queue.url", "queue.visibilityTimeoutSeconds"),
        *("resources.cpu", "resources.memory", "values"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tolerations": [{}]}, "tolerations[0]: missing property 'key'"),
        ({"queue": {"pollSeconds": 21}}, "queue.pollSeconds: maximum: got 21, want 20"),
        ({"image": {"tag": "1"}}, "image: additional properties 'tag' not allowed"),
        ({"resources": {"cpu": "0.0"}}, "resources.cpu: '0.0' does not match pattern"),
        ({"resources": {"cpu": "0"}}, "resources.cpu: '0' does not match pattern"),
        ({"queue": {"replyUrls": [URL, URL]}}, "queue.replyUrls: items at 0 and 1 are equal"),
        (
            {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "worker"}}},
            "serviceAccount.annotations.eks.amazonaws.com/role-arn: 'worker' does not match pattern '^arn:aws",
        ),
        (
            {"networkPolicy": {"monitoring": [{"podSelector": {"matchLabel": {"a": "b"}}}]}},
            "networkPolicy.monitoring[0].podSelector: additional properties 'matchLabel' not allowed",
        ),
        ({"queue": {"url": "https://" + "a:b" + "@c/d"}}, "queue.url: 'https://a:b" + "@c/d' does not match pattern"),
        ({"triton": {"url": "http://triton:8001"}}, "triton.url: 'http://triton:8001' does not match pattern"),
        ({"queue": None}, "values: missing property 'queue'"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations[0].effect: value must be one of 'NoSchedule'"),
    ],
)
def test_the_schema_refuses(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmError) as caught:
        render(merge(computed(KEDA), changes))
    assert said in str(caught.value)


def test_both_charts_refuse_the_same_of_what_both_have() -> None:
    triton = ROOT / "charts" / "triton"
    mine, its = (json.loads((chart / "values.schema.json").read_text())["definitions"] for chart in (CHART, triton))
    assert mine == {name: its[name] for name in mine}


def test_every_value_is_described_and_in_the_schema() -> None:
    assert set(values_reference.leaves(yaml.safe_load(VALUES_TEXT))) == values_reference.documented(VALUES_TEXT)
    for path in values_reference.documented(VALUES_TEXT):
        node = json.loads((CHART / "values.schema.json").read_text())
        for key in path.split("."):
            node = node["properties"][key]
