"""A twin whose nodes Karpenter starts, with helpers that list and change its nodes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import yaml

from spec.names import TRITON_NAMESPACE
from tests.system.e2e.conftest import UP_SECONDS, Twin
from twin.aws import moto_server
from twin.aws.base.clients import session
from twin.aws.faults import DELAYS
from twin.cluster.kube_api import KubeClient, Object
from twin.host import claim, processes
from twin.host.home import TwinHome
from twin.plugins import kubeconfig

T = TypeVar("T")
SECONDS = 180.0
REGION = "us-west-2"
POOL = "karpenter.sh/nodepool"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TRITON = "/apis/apps/v1/namespaces/triton/deployments/triton"


@dataclasses.dataclass(frozen=True)
class Nodes(Twin):
    """A twin whose nodes Karpenter starts."""

    @cached_property
    def kube(self) -> KubeClient:
        return kubeconfig.connect(yaml.safe_load(self.home.kubeconfig.read_text()))

    def aws(self, service: str) -> Any:
        return session(REGION).client(service, endpoint_url=self.home.load_endpoints().aws_url)

    def of(self, pool: str) -> dict[str, Object]:
        """Return the nodes of a pool that are Ready and not terminating, by name."""
        listed = self.kube.get("/api/v1/nodes", labelSelector=f"{POOL}={pool}")["items"]
        return {node["metadata"]["name"]: node for node in listed if _stays(node)}

    def instances(self, pool: str) -> dict[str, dict[str, Any]]:
        """Return the running instances of a pool, by id."""
        return {id: one for id, one in self.launched(pool).items() if one["State"]["Name"] == "running"}

    def launched(self, pool: str) -> dict[str, dict[str, Any]]:
        """Return all instances of a pool that were ever launched, by id."""
        tag = {"Name": f"tag:{POOL}", "Values": [pool]}
        found = self.aws("ec2").describe_instances(Filters=[tag])["Reservations"]
        return {one["InstanceId"]: one for reservation in found for one in reservation["Instances"]}

    def deploy(self, name: str, pods: int, pool: str = "g5") -> None:
        """Create a Deployment whose pods each need a GPU of a pool; kwok simulates the pods."""
        container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        spec = {
            "containers": [container],
            "nodeSelector": {"triton-eks/pool": pool},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
        }
        labels = {"app": name}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": pods,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        self.kube.apply(f"{DEPLOYMENTS}/{name}", body, manager="test")

    @contextmanager
    def deployed(self, name: str, pods: int) -> Iterator[None]:
        """Deploy during the block, then wait until only Triton's node remains."""
        self.deploy(name, pods)
        try:
            yield
        finally:
            self.kube.delete(f"{DEPLOYMENTS}/{name}")
        self.until(lambda: len(self.of("g5")) == len(self.instances("g5")) == 1, "only Triton's node to be left")

    def placed(self, name: str, pods: int) -> dict[str, str]:
        """Wait until this number of a Deployment's pods is ready, and return their nodes by pod."""

        def ready() -> dict[str, str]:
            found = self.ready("default", labelSelector=f"app={name}")
            return found if len(found) == pods else {}

        return self.until(ready, f"{pods} pods of {name} to be ready")

    def tritons(self) -> dict[str, str]:
        """Return the ready pods of Triton, with their nodes."""
        return self.ready(TRITON_NAMESPACE)

    def ready(self, namespace: str, **selected: str) -> dict[str, str]:
        """Return the ready pods of a namespace that match the selector, with their nodes."""
        listed = self.kube.get(f"/api/v1/namespaces/{namespace}/pods", **selected)["items"]
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in listed if _is_ready(pod)}

    def triton(self) -> str:
        """Return the node of Triton's pod."""
        (node,) = self.until(self.tritons, "Triton to be ready").values()
        return node

    def merge(self, path: str, body: Object) -> None:
        self.kube.patch(path, body, kind="merge")

    def most_leaving(self, pool: str, done: Callable[[], bool], what: str) -> int:
        """Wait until `done`; return the most nodes of a pool that were terminating at once while their instances ran.

        Karpenter's budget does not count a node whose instance is terminated, although the node exists until it is deleted.
        """
        most = 0

        def look() -> bool:
            nonlocal most
            listed = self.kube.get("/api/v1/nodes", labelSelector=f"{POOL}={pool}")["items"]
            leaving = {instance_of(node) for node in listed if _joined(node) and not _stays(node)}
            most = max(most, len(leaving & self.instances(pool).keys()))
            return done()

        self.until(look, what)
        return most

    def until(self, condition: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
        try:
            return processes.wait_until(condition, what, seconds, poll=0.3)
        except processes.DeadlinePassed as error:
            logs = [self.home.logs / f"{name}.log" for name in ("karpenter", "agent")]
            raise AssertionError("\n".join([str(error), *(processes.tail(log) for log in logs)])) from None

    def calls(self) -> dict[str, dict[str, int]]:
        """Count Karpenter's AWS API calls by name, and the calls that its role's policy would have denied."""
        found: dict[str, dict[str, int]] = json.loads((self.home.path / "charts/karpenter/aws-calls.json").read_text())
        return found


def instance_of(node: Object) -> str:
    return str(node["spec"]["providerID"]).rpartition("/")[2]


def _joined(node: Object) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"


def _stays(node: Object) -> bool:
    leaving = any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", []))
    return _joined(node) and not leaving and "deletionTimestamp" not in node["metadata"]


def _is_ready(pod: Object) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@contextmanager
def karpenter_twin(home: TwinHome, delays: str = "", pins: Mapping[str, Any] | None = None) -> Iterator[Nodes]:
    """Bring up a twin with Karpenter during the block; its AWS applies changes late by `delays` from the start.

    `pins`: keys of its stack file that differ.
    """
    twin = Nodes(home)
    try:
        for key, value in (pins or {}).items():
            twin.pin(key, value)
        if delays:
            claim.claim(home.path)
            moto_server.ensure(home, print)
            twin.aws("ssm").put_parameter(Name=DELAYS, Value=delays, Type="String")
        up = twin.run("up", "--karpenter", seconds=2 * UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        # The defaults are 15 and 5 minutes, for people's machines.
        twin.merge(f"{NODE_POOLS}/g5", {"spec": {"disruption": {"consolidateAfter": "2s"}}})
        twin.merge(f"{NODE_POOLS}/cpu", {"spec": {"disruption": {"consolidateAfter": "2s"}}})
        yield twin
    finally:
        twin.down()
