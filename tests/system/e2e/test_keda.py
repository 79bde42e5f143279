"""KEDA's real operator and metrics server on a real control plane: the program's scaling settings take effect."""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
import pytest
import yaml
from rich.console import Console

from infra.platform import keda as keda_chart
from infra.serving.scaling import first_pod_trigger
from spec.charts import KEDA
from spec.scaling.manifests import scaled_object_spec
from tests.infra.access import stack
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_access import gateway
from tests.spec.test_stack_mistakes_autoscaling import MONITORED, SCALED, scaling
from tests.spec.test_stack_mistakes_worker import BY_HAND
from tests.system.e2e.prometheus_stand_in import ADDRESS, Prometheus
from tests.system.e2e.sockets import listening
from tests.twin.plugins.recording_engine import recording_engine
from twin.aws import moto_server
from twin.charts.keda import programs as keda
from twin.cluster import control_plane
from twin.cluster.kube_api import KubeClient
from twin.commands.down import down
from twin.host import claim, processes, tools
from twin.host.home import TwinHome
from twin.plugins import kubeconfig
from twin.plugins.errors import PluginError
from twin.plugins.provider import Resource
from twin.plugins.releases import TOKEN, Releases
from twin.plugins.server import EngineLog
from twin.services import agent

# The first test that needs the tools may have to build them.
pytestmark = pytest.mark.timeout(1800)

T = TypeVar("T")
REGION = "us-west-2"
NAMESPACE = "keda"
SECONDS = 90.0
_BUSY = "s1-prometheus"
"""The trigger for busy instances: the second trigger of a stack with one model."""
PROMETHEUS_URL = "http://metrics.default.svc:9090"
RELEASE = Resource(urn=f"urn:pulumi:local::triton-eks::{TOKEN}::keda", type=TOKEN, name="keda", id=f"{NAMESPACE}/keda")


@dataclass(frozen=True)
class Cluster:
    """A twin's servers with an EKS cluster in its account; `role_arn` is the operator's."""

    home: TwinHome
    kube: KubeClient
    releases: Releases
    account: boto3.session.Session
    aws_url: str
    issuer: str
    inputs: dict[str, Any]

    def install(self) -> None:
        """Install the chart's release in its namespace, as `pulumi up` does."""
        self.kube.create("/api/v1/namespaces", _object("v1", "Namespace", NAMESPACE))
        self.releases.create(RELEASE, self.inputs, 60)

    def aws(self, service: str) -> Any:
        return self.account.client(service, endpoint_url=self.aws_url)

    def role(self, name: str, subject: str) -> str:
        """Create a role for the service account `subject`, and return its ARN."""
        host = self.issuer.removeprefix("https://")
        statement = {
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{host}"},
            "Condition": {"StringEquals": {f"{host}:sub": subject, f"{host}:aud": "sts.amazonaws.com"}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        arn: str = self.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
        return arn

    def create(self, path: str, kind: str, api_version: str, name: str, spec: dict[str, Any], **more: Any) -> None:
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **more.pop("metadata", {})}, **more}
        self.kube.create(path, body | ({"spec": spec} if spec else {}))

    def deployment(self, name: str) -> None:
        container = {"name": "main", "image": "registry.example/main:1"}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}
        self.create("/apis/apps/v1/namespaces/default/deployments", "Deployment", "apps/v1", name, spec)

    def scaled_object(self, name: str, trigger: dict[str, Any]) -> None:
        """Scale the Deployment with this name between 0 and 4, without delays."""
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        spec = {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": 0,
            "maxReplicaCount": 4,
            "pollingInterval": 1,
            "cooldownPeriod": 1,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [trigger],
        }
        path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
        self.create(path, "ScaledObject", "keda.sh/v1alpha1", name, spec)

    def remove_scaled_object(self, name: str) -> None:
        path = f"/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects/{name}"
        self.kube.delete(path)
        until(lambda: self.kube.find(path) is None, f"the operator to let go of {name}")

    def scaled_to(self, name: str, replicas: int) -> None:
        """Wait until the Deployment requests this number of pods, and has them."""

        def settled() -> bool:
            found = self.kube.find(f"/apis/apps/v1/namespaces/default/deployments/{name}")
            assert found is not None
            return (found["spec"]["replicas"], found["status"].get("replicas", 0)) == (replicas, replicas)

        until(settled, f"{name} to be scaled to {replicas}", self.explain)

    def pids(self) -> list[int]:
        """Return the pids of the operator and its metrics server; 0 for one that does not run."""
        records = (processes.find(self.home, name) for name in (keda.OPERATOR, keda.ADAPTER))
        return [record.pid if record else 0 for record in records]

    def explain(self) -> str:
        logs = [self.home.logs / f"{name}.log" for name in (keda.OPERATOR, keda.ADAPTER, agent.NAME)]
        return "\n".join(f"{log}:\n{processes.tail(log)}" for log in logs)


def until(condition: Callable[[], T], what: str, explain: Callable[[], str] = str) -> T:
    try:
        return processes.wait_until(condition, what, SECONDS, poll=0.2)
    except processes.DeadlinePassed as error:
        raise AssertionError(f"{error}\n{explain()}") from None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a twin with KEDA, installed as the program installs it."""
    home = TwinHome(tmp_path_factory.mktemp("keda") / "home")
    console = Console(stderr=True)
    programs = tools.ensure(["control-plane", keda.FAMILY], console)
    claim.claim(home.path)
    try:
        moto_server.ensure(home, console.print)
        control_plane.ensure(home, programs, console.print)
        agent.ensure(home)
        with recording_engine() as engine:
            cluster = _cluster(home, EngineLog(engine.address))
            cluster.install()
            yield cluster
    finally:
        list(down(home))
        assert processes.marked(home) == {}
        assert not home.path.exists()


def _cluster(home: TwinHome, log: EngineLog) -> Cluster:
    kube = kubeconfig.connect(yaml.safe_load(home.kubeconfig.read_text()))
    url = home.load_endpoints().aws_url or ""
    account = boto3.session.Session("test", "test", region_name=REGION)
    eks, iam = (account.client(service, endpoint_url=url) for service in ("eks", "iam"))
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    eks.create_cluster(name="twin", roleArn="arn:aws:iam::123456789012:role/cluster", resourcesVpcConfig=network)
    issuer = eks.describe_cluster(name="twin")["cluster"]["identity"]["oidc"]["issuer"]
    iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"], ThumbprintList=["0" * 40])
    releases = Releases(kube, log, threading.Event(), namespace="default")
    made = Cluster(home, kube, releases, account, url, issuer, {})
    operator = made.role("keda-operator", f"system:serviceaccount:{NAMESPACE}:keda-operator")
    made.inputs.update(
        chart=KEDA.name,
        version=KEDA.version,
        name="keda",
        namespace=NAMESPACE,
        values=keda_chart.values(operator, monitored=False),
        atomic=True,
        timeout=120,
    )
    return made


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


@pytest.fixture
def queue(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of an empty queue."""
    sqs = cluster.aws("sqs")
    url: str = sqs.create_queue(QueueName=f"requests-{request.node.name.partition('[')[0][-40:]}")["QueueUrl"]
    yield url
    sqs.delete_queue(QueueUrl=url)


def sqs_trigger(queue: str) -> dict[str, Any]:
    metadata = {"queueURL": queue, "queueLength": "5", "activationQueueLength": "0", "awsRegion": REGION}
    return {"type": "aws-sqs-queue", "authenticationRef": {"name": "queue"}, "metadata": metadata}


def authentication(cluster: Cluster, role_arn: str) -> None:
    path = "/apis/keda.sh/v1alpha1/namespaces/default/triggerauthentications"
    body = {
        **_object("keda.sh/v1alpha1", "TriggerAuthentication", "queue"),
        "spec": {"podIdentity": {"provider": "aws", "roleArn": role_arn}},
    }
    cluster.kube.apply(f"{path}/queue", body, manager="test")


def test_the_programs_listen_on_this_machine_alone(cluster: Cluster) -> None:
    for pid in cluster.pids():
        assert {address.rpartition(":")[0] for address in listening(pid)} == {"0100007F"}


def test_a_queue_scales_its_workers_from_none_and_back(cluster: Cluster, queue: str) -> None:
    sqs = cluster.aws("sqs")
    authentication(cluster, cluster.role("queue-reader", f"system:serviceaccount:{NAMESPACE}:keda-operator"))
    cluster.deployment("worker")
    cluster.scaled_object("worker", sqs_trigger(queue))
    for number in range(12):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    cluster.scaled_to("worker", 3)
    sqs.purge_queue(QueueUrl=queue)
    cluster.scaled_to("worker", 0)
    cluster.remove_scaled_object("worker")


def test_a_role_that_trusts_somebody_else_is_not_given(cluster: Cluster, queue: str) -> None:
    authentication(cluster, cluster.role("of-another", f"system:serviceaccount:{NAMESPACE}:somebody-else"))
    cluster.deployment("untrusted")
    cluster.scaled_object("untrusted", sqs_trigger(queue))
    cluster.aws("sqs").send_message(QueueUrl=queue, MessageBody="1")

    def refused() -> bool:
        items = cluster.kube.get("/api/v1/namespaces/default/events")["items"]
        return any(item["involvedObject"]["name"] == "untrusted" and "AccessDenied" in item["message"] for item in items)

    until(refused, "an event that says that the role is not given", cluster.explain)
    assert "the token has system:serviceaccount:keda:keda-operator" in (cluster.home.logs / "agent.log").read_text()
    cluster.scaled_to("untrusted", 0)
    cluster.remove_scaled_object("untrusted")


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster) -> Iterator[Prometheus]:
    """Return a Prometheus behind the Service PROMETHEUS_URL."""
    server = Prometheus()
    server.start()
    named = {"name": "web", "port": 9090, "targetPort": server.port}
    cluster.create("/api/v1/namespaces/default/services", "Service", "v1", "metrics", {"ports": [named]})
    cluster.create(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        "EndpointSlice",
        "discovery.k8s.io/v1",
        "metrics-1",
        {},
        metadata={"labels": {"kubernetes.io/service-name": "metrics"}},
        addressType="IPv4",
        endpoints=[{"addresses": [ADDRESS], "conditions": {"ready": True}}],
        ports=[{"name": "web", "port": server.port, "protocol": "TCP"}],
    )
    yield server
    server.stop()


def test_a_query_to_prometheus_behind_a_service_scales_and_a_killed_operator_comes_back(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    cluster.deployment("triton")
    metadata = {"serverAddress": PROMETHEUS_URL, "query": "needed", "threshold": "10", "ignoreNullValues": "false"}
    cluster.scaled_object("triton", {"type": "prometheus", "metricType": "AverageValue", "metadata": metadata})
    prometheus.busy = "21"
    cluster.scaled_to("triton", 3)
    before = cluster.pids()
    os.kill(before[0], signal.SIGKILL)

    def back() -> bool:
        now = cluster.pids()
        return 0 not in now and not set(now) & set(before)

    until(back, "the agent to bring the operator and its metrics server back", cluster.explain)
    prometheus.busy = "40"
    cluster.scaled_to("triton", 4)
    prometheus.busy = "0"
    cluster.scaled_to("triton", 0)
    cluster.remove_scaled_object("triton")


def test_the_programs_own_scaler_holds_the_pods_in_an_outage_of_prometheus_and_keeps_its_floor(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    cluster.deployment("held")
    spec = of_the_program(floor=2) | {"scaleTargetRef": {"name": "held"}, "pollingInterval": 1}
    # Only the fallback may keep these pods, not the stabilization window.
    spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
    prometheus.busy = "0"
    cluster.create(path, "ScaledObject", "keda.sh/v1alpha1", "held", spec)
    cluster.scaled_to("held", 2)
    assert autoscaler(cluster)["spec"]["minReplicas"] == 1, "so that the floor is what wants the second pod"
    prometheus.busy = "2"
    cluster.scaled_to("held", 3)

    prometheus.busy = None
    assert fewest_until(cluster, lambda: falls_back(cluster), "an empty result to be taken for a failure") == 3
    prometheus.busy = "2"
    assert fewest_until(cluster, lambda: measures(cluster), "the numbers to be back") == 3
    prometheus.stop()
    try:
        assert fewest_until(cluster, lambda: falls_back(cluster), "a Prometheus that is away to be taken for a failure") == 3
    finally:
        prometheus.start()
    assert fewest_until(cluster, lambda: measures(cluster), "the numbers to be back") == 3
    prometheus.busy = "0"
    cluster.scaled_to("held", 2)
    cluster.remove_scaled_object("held")


def test_the_programs_own_scaler_of_a_fleet_without_pods_starts_one_by_a_message_and_ends_it_when_all_are_answered(
    cluster: Cluster, prometheus: Prometheus, queue: str
) -> None:
    sqs = cluster.aws("sqs")
    authentication(cluster, cluster.role("wakes-triton", f"system:serviceaccount:{NAMESPACE}:keda-operator"))
    cluster.deployment("woken")
    path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
    prometheus.busy = None  # no pod has a number
    cluster.create(path, "ScaledObject", "keda.sh/v1alpha1", "woken", to_zero("woken", queue))
    for number in range(40):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    cluster.scaled_to("woken", 1)
    prometheus.busy = "2"
    cluster.scaled_to("woken", 3)

    prometheus.stop()
    try:
        sqs.purge_queue(QueueUrl=queue)
        away = "a Prometheus that is away to be taken for a failure"
        assert fewest_until(cluster, lambda: falls_back(cluster), away, "woken") == 3
    finally:
        prometheus.start()
    prometheus.busy = "0"
    cluster.scaled_to("woken", 0)
    cluster.remove_scaled_object("woken")


def test_the_programs_own_scaler_of_a_fleet_without_pods_starts_one_by_a_request_that_the_gateway_had_to_refuse(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    bounds = scaling(minReplicas=0, maxReplicas=4)
    read = settings({**SCALED, **gateway(), **MONITORED, "gpu.pools[0].desired": 4, "autoscaling": bounds})
    cluster.deployment("asked")
    prometheus.busy = None  # no pod has a number
    path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
    cluster.create(
        path, "ScaledObject", "keda.sh/v1alpha1", "asked", quickly(scaled_object_spec(read, PROMETHEUS_URL), "asked")
    )
    prometheus.refused = "0.3"  # for one request, `increase` is often less than 1
    cluster.scaled_to("asked", 1)
    prometheus.busy, prometheus.refused = "2", "5000"
    cluster.scaled_to("asked", 3)

    prometheus.busy, prometheus.refused = "0", None
    unscraped = "an Envoy that is not scraped to be taken for a failure"
    assert fewest_until(cluster, lambda: per_pod(cluster, "s2-prometheus") == "1M", unscraped, "asked") == 3
    prometheus.refused = "0"
    cluster.scaled_to("asked", 0)
    prometheus.refused = None
    cluster.scaled_to("asked", 1)  # the fallback
    prometheus.refused = "0"
    cluster.remove_scaled_object("asked")


def quickly(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the ScaledObject for a Deployment of the test, without its delays.

    Keeps the time from the first failure to the fallback: if KEDA polls while it recreates its scalers after a failure, none
    of them is active (https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go#L975-L977).
    """
    spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return {**spec, "scaleTargetRef": {"name": name}, "pollingInterval": 1, "cooldownPeriod": 20}


def to_zero(name: str, queue: str) -> dict[str, Any]:
    """Return the ScaledObject of a one-model stack whose fleet may scale to zero: 0 to 4 pods, without delays."""
    bounds = scaling(minReplicas=0, maxReplicas=4)
    read = settings({**SCALED, "gpu.pools[0].desired": 4, "worker": BY_HAND, "autoscaling": bounds})
    assert read.worker is not None
    spec = quickly(scaled_object_spec(read, PROMETHEUS_URL), name)
    first = first_pod_trigger(stack(), read.worker, "queue")
    first["metadata"] |= {"queueURL": queue, "awsRegion": REGION}
    return {**spec, "triggers": [*spec["triggers"], first]}


def of_the_program(floor: int) -> dict[str, Any]:
    """A one-model stack's ScaledObject: 1 to 4 pods, at least `floor` from an hour ago until an hour from now."""
    now = datetime.datetime.now(datetime.UTC)
    begin, end = ((now + datetime.timedelta(hours=hours)).hour for hours in (-1, 2))
    hours = {"start": f"0 {begin} * * *", "end": f"0 {end} * * *", "timezone": "Etc/UTC", "replicas": floor}
    bounds = scaling(maxReplicas=4, cronFloor=hours)
    return scaled_object_spec(settings({**SCALED, "gpu.pools[0].desired": 4, "autoscaling": bounds}), PROMETHEUS_URL)


def autoscaler(cluster: Cluster) -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler that KEDA creates."""
    found = cluster.kube.find("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/triton")
    assert found is not None
    return found


def per_pod(cluster: Cluster, trigger: str) -> str | None:
    """Return a trigger's value for each pod, as the autoscaler last saw it; None before its first value."""
    for metric in autoscaler(cluster).get("status", {}).get("currentMetrics") or []:
        described = metric.get("external", {})
        if described.get("metric", {}).get("name") == trigger:
            value: str | None = described["current"].get("averageValue")
            return value
    return None


def falls_back(cluster: Cluster) -> bool:
    """Return whether the autoscaler uses the fallback's value: the target itself, which keeps the number of pods."""
    asked = (metric["external"] for metric in autoscaler(cluster)["spec"]["metrics"])
    target = next(one["target"]["averageValue"] for one in asked if one["metric"]["name"] == _BUSY)
    return per_pod(cluster, _BUSY) == target


def measures(cluster: Cluster) -> bool:
    """Return whether the autoscaler uses Prometheus's value: 2 busy instances of 3 pods."""
    return per_pod(cluster, _BUSY) == "667m"


def fewest_until(cluster: Cluster, condition: Callable[[], bool], what: str, name: str = "held") -> int:
    """Return the lowest requested number of pods of a Deployment until the condition holds."""
    fewest = sys.maxsize

    def looked() -> bool:
        nonlocal fewest
        found = cluster.kube.find(f"/apis/apps/v1/namespaces/default/deployments/{name}")
        assert found is not None
        fewest = min(fewest, found["spec"]["replicas"])
        return condition()

    until(looked, what, cluster.explain)
    return fewest


def test_another_installation_keeps_what_runs_and_a_broken_one_says_why(cluster: Cluster) -> None:
    before = cluster.pids()
    cluster.releases.update(RELEASE, {**cluster.inputs, "status": {"revision": 1}}, cluster.inputs, 60)
    assert cluster.pids() == before
    broken = {**cluster.inputs, "values": {**cluster.inputs["values"], "http": {"timeout": "soon"}}}
    with pytest.raises(PluginError, match="KEDA_HTTP_DEFAULT_TIMEOUT"):
        cluster.releases.update(RELEASE, {**cluster.inputs, "status": {"revision": 2}}, broken, 60)
    cluster.releases.update(RELEASE, {**cluster.inputs, "status": {"revision": 2}}, cluster.inputs, 60)
    assert 0 not in cluster.pids()


def test_without_the_release_nothing_of_it_is_left_and_its_namespace_can_go(cluster: Cluster) -> None:
    cluster.releases.delete(RELEASE, cluster.inputs, cluster.inputs, 60)
    assert cluster.pids() == [0, 0]
    assert cluster.kube.find("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io") is None
    assert cluster.kube.find("/apis/rbac.authorization.k8s.io/v1/clusterroles/keda-operator") is None
    cluster.kube.delete(f"/api/v1/namespaces/{NAMESPACE}")
    until(lambda: cluster.kube.find(f"/api/v1/namespaces/{NAMESPACE}") is None, "the namespace to go")
    cluster.install()
    assert 0 not in cluster.pids()
