"""The controller's arguments and environment, and parsed AWS requests; `tests/system/e2e/test_nodes.py` runs it."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.infra.test_karpenter_pools import karpenter_values
from tests.paths import ROOT
from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.eks import lookup
from twin.charts.karpenter import CHART, TEMPLATES
from twin.charts.karpenter.calls import Request
from twin.charts.karpenter.endpoint import Lookups, known_families, request_of, statements
from twin.charts.karpenter.program import environment, role_arn
from twin.releases import go_module
from twin.releases.chart import ChartFailed

REGION = "us-west-2"


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        yield Clients(REGION)


def test_the_environment_is_that_of_the_charts_container() -> None:
    objects = go_module.templates(CHART, TEMPLATES, "kube-system", karpenter_values())
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    found = environment(deployment, "kube-system")
    assert found["CLUSTER_NAME"] == "triton-staging"
    assert found["INTERRUPTION_QUEUE"] == "q"
    assert found["SYSTEM_NAMESPACE"] == "kube-system"
    assert (found["CPU_REQUESTS"], found["MEMORY_LIMIT"]) == ("250", str(2**30))
    assert "NodeRepair=true" in found["FEATURE_GATES"].split(",")


def test_the_accounts_are_what_helm_makes_of_the_chart() -> None:
    objects = go_module.accounts(CHART, "kube-system", karpenter_values())
    kinds = {(item["kind"], item["metadata"]["name"]) for item in objects}
    assert ("ServiceAccount", "karpenter") in kinds
    assert {kind for kind, _ in kinds} == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


def test_the_role_is_that_of_the_clusters_pod_identity_and_without_one_nothing_starts(clients: Clients) -> None:
    with pytest.raises(ChartFailed, match="the cluster c has no pod identity for the service account kube-system/karpenter"):
        role_arn(clients, "c", "kube-system", "karpenter")
    records.put(clients, lookup.record_name("c", "pod-identities", "kube-system", "karpenter"), {"roleArn": "arn:r"})
    assert role_arn(clients, "c", "kube-system", "karpenter") == "arn:r"


def signed(service: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential=k/20261123/{REGION}/{service}/aws4_request, Signature=0", **more}


REQUESTS: dict[str, tuple[dict[str, str], str, str, Request]] = {
    "query": (
        signed("ec2"),
        "/",
        "Action=TerminateInstances&InstanceId.1=i-1&Empty=",
        Request("ec2", "TerminateInstances", {"Action": "TerminateInstances", "InstanceId.1": "i-1", "Empty": ""}),
    ),
    "JSON": (
        signed("sqs", **{"X-Amz-Target": "AmazonSQS.GetQueueUrl"}),
        "/",
        '{"QueueName": "q"}',
        Request("sqs", "GetQueueUrl", {"QueueName": "q"}),
    ),
    "path": (signed("eks"), "/clusters/triton-prod", "", Request("eks", "DescribeCluster", {"name": "triton-prod"})),
    "another path": (signed("eks"), "/clusters/c/addons", "", Request("eks", "/clusters/c/addons", {})),
    "unsigned": ({}, "/", "Action=X", Request("?", "X", {"Action": "X"})),
}


@pytest.mark.parametrize(("headers", "path", "body", "wanted"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_read_from_its_protocol(headers: dict[str, str], path: str, body: str, wanted: Request) -> None:
    assert request_of(headers, path, body) == wanted


def test_it_is_told_of_the_instance_types_that_the_project_knows(clients: Clients) -> None:
    asked = Request("ec2", "DescribeInstanceTypes", {"Filter.1.Name": "bare-metal", "Filter.1.Value.1": "false"})
    more = urllib.parse.parse_qs(known_families(asked).removeprefix("&"))
    assert more["Filter.2.Name"] == ["instance-type"]
    patterns = [values[0] for key, values in more.items() if key.startswith("Filter.2.Value.")]
    found = clients("ec2").describe_instance_types(Filters=[{"Name": "instance-type", "Values": patterns}])["InstanceTypes"]
    assert {"g5.xlarge", "p5.48xlarge", "m7i.xlarge"} <= {one["InstanceType"] for one in found}
    assert len(found) < 300


def test_the_policies_of_a_role_are_its_own_and_those_attached(clients: Clients) -> None:
    iam = clients("iam")
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})

    def one(sid: str) -> str:
        return json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Sid": sid, "Effect": "Allow", "Action": ["a:b"], "Resource": ["*"]}]}
        )

    iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust)
    iam.put_role_policy(RoleName="r", PolicyName="own", PolicyDocument=one("Own"))
    arn = iam.create_policy(PolicyName="p", PolicyDocument=one("Attached"))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="r", PolicyArn=arn)
    assert [statement["Sid"] for statement in statements(clients, "r")] == ["Own", "Attached"]


def test_what_is_not_there_has_no_tags_template_or_role(clients: Clients) -> None:
    account = Lookups(clients)
    assert (account.tags("i-0123456789abcdef0"), account.launch_template("nobodys"), account.role_of("nobodys")) == (
        {},
        ("", {}),
        None,
    )


def test_its_module_is_the_version_that_the_program_installs() -> None:
    pinned = (ROOT / "twin" / "tools" / "karpenter" / "go.mod").read_text()
    assert CHART.module is not None
    assert f"{CHART.module.path} {CHART.module.version}" in pinned
