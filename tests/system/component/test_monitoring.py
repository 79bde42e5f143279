"""The monitoring of a stack, as its component registers it and AWS accepts it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import yaml

from infra.platform.monitoring import Monitoring
from spec.settings import Settings, load
from spec.versions import PROJECT
from tests.infra.access import access, stack
from tests.paths import ROOT
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from tests.system.component.engine.stack_run import TODAY
from twin.aws.base.clients import Clients

RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
WORKSPACE = "ws-01234567-89ab-cdef-0123-456789abcdef"
TOPIC = "arn:aws:sns:us-west-2:123456789012:triton-staging-alerts"


def settings(**changes: Any) -> Settings:
    """Return the settings of staging, with changes to its monitoring."""
    config = yaml.safe_load((ROOT / "stacks" / "Pulumi.staging.yaml").read_text())["config"]
    section = {**config["triton-eks:monitoring"], **changes}
    config["triton-eks:monitoring"] = {key: value for key, value in section.items() if value is not None}
    return load(config, "staging", today=TODAY)


def bring_up(clients: Clients, wanted: Settings) -> Recording:
    """Bring up only the component."""
    assert wanted.monitoring is not None
    monitoring = wanted.monitoring

    def program() -> None:
        provider = k8s.Provider("kubernetes", kubeconfig="{}")
        Monitoring("monitoring", access(stack(wanted.environment), provider=provider), wanted, monitoring)

    with contextlib.chdir(ROOT):
        return run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=clients)


@pytest.fixture(scope="module")
def complete(clients: Clients) -> Recording:
    """Bring up the component with an AMP workspace and a topic."""
    clients("eks").create_cluster(name="triton-staging", roleArn="arn:aws:iam::123456789012:role/c", resourcesVpcConfig={})
    return bring_up(clients, settings(amp={"workspaceId": WORKSPACE}))


def policy(recording: Recording, name: str) -> list[dict[str, Any]]:
    document = json.loads(recording.one("aws:iam/rolePolicy:RolePolicy", name).checked["policy"])
    statements: list[dict[str, Any]] = document["Statement"]
    return statements


def test_prometheus_may_write_to_its_workspace_and_to_nothing_else(complete: Recording) -> None:
    (statement,) = policy(complete, "monitoring-prometheus-policy")
    arn = f"arn:aws:aps:us-west-2:123456789012:workspace/{WORKSPACE}"
    assert statement == {"Effect": "Allow", "Action": ["aps:RemoteWrite"], "Resource": [arn]}


def test_alertmanager_may_publish_to_its_topic_and_to_nothing_else(complete: Recording) -> None:
    (statement,) = policy(complete, "monitoring-alertmanager-policy")
    assert statement == {"Effect": "Allow", "Action": ["sns:Publish"], "Resource": [TOPIC]}


@pytest.mark.parametrize("account", ["prometheus", "alertmanager"])
def test_each_role_is_for_the_service_account_of_the_chart(complete: Recording, account: str) -> None:
    role = complete.one("aws:iam/role:Role", f"monitoring-{account}-role-pods")
    (statement,) = json.loads(role.checked["assumeRolePolicy"])["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:us-west-2:123456789012:cluster/triton-staging",
        "aws:RequestTag/kubernetes-namespace": "monitoring",
        "aws:RequestTag/kubernetes-service-account": account,
    }
    assert complete.one(RELEASE).checked["values"][account]["serviceAccount"] == {"create": True, "name": account}


def test_samples_go_to_the_workspace_of_the_region(complete: Recording) -> None:
    (write,) = complete.one(RELEASE).checked["values"]["prometheus"]["prometheusSpec"]["remoteWrite"]
    host = "https://aps-workspaces.us-west-2.amazonaws.com"
    assert write["url"] == f"{host}/workspaces/{WORKSPACE}/api/v1/remote_write"
    assert write["sigv4"] == {"region": "us-west-2"}


def test_the_chart_waits_for_its_namespace_its_volumes_and_its_roles(complete: Recording) -> None:
    waits = complete.one(RELEASE).depends_on
    needed = [
        complete.one(NAMESPACE).urn,
        complete.one("kubernetes:storage.k8s.io/v1:StorageClass").urn,
        complete.one("aws:iam/rolePolicy:RolePolicy", "monitoring-prometheus-policy").urn,
        complete.one("aws:iam/rolePolicy:RolePolicy", "monitoring-alertmanager-policy").urn,
        *(item.urn for item in complete.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")),
    ]
    assert len(needed) == 6
    assert set(needed) <= set(waits)


def test_monitors_and_rules_wait_for_the_kinds_that_the_chart_brings(complete: Recording) -> None:
    custom = [item for item in complete.registrations if item.type.startswith("kubernetes:monitoring.coreos.com/")]
    assert sorted((item.type.rpartition(":")[2], item.checked["metadata"]["name"]) for item in custom) == [
        ("PodMonitor", "envoy"),
        ("PodMonitor", "triton"),
        ("PodMonitor", "triton-parity"),
        ("PodMonitor", "worker"),
        ("PrometheusRule", "triton"),
    ]
    assert [complete.one(RELEASE).urn in item.depends_on for item in custom] == [True] * len(custom)


def test_without_a_workspace_and_a_topic_there_are_no_roles(clients: Clients) -> None:
    recording = bring_up(clients, settings(alertTopicArn=None))
    assert recording.of_type("aws:iam/role:Role") == []
    assert "remoteWrite" not in recording.one(RELEASE).checked["values"]["prometheus"]["prometheusSpec"]


def test_dashboards_carry_the_label_that_grafana_looks_for(complete: Recording) -> None:
    sidecar = complete.one(RELEASE).checked["values"]["grafana"]["sidecar"]["dashboards"]
    found = complete.of_type(CONFIG_MAP)
    assert len(found) == 3
    for item in found:
        metadata, data = item.checked["metadata"], item.checked["data"]
        assert metadata["namespace"] == "monitoring"
        assert metadata["labels"] == {sidecar["label"]: sidecar["labelValue"]}
        ((file, text),) = data.items()
        assert file == f"{json.loads(text)['uid']}.json"


def test_no_password_is_in_what_is_registered(complete: Recording) -> None:
    assert complete.of_type("kubernetes:core/v1:Secret") == []
    assert "password" not in json.dumps([item.checked for item in complete.registrations]).lower()
