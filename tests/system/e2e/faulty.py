"""A twin with faults: it accounts for each request and message, and injects the faults."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE
from tests.system.e2e import account
from tests.system.e2e.conftest import UP_SECONDS, Twin
from tests.system.e2e.steady_load import MODEL, Load
from twin.cluster.kube_api import KubeClient, Object, object_path
from twin.cluster.kube_errors import KubeError
from twin.cluster.pod_addresses import loopback
from twin.engine import engine, stack_files
from twin.host import processes
from twin.host.home import TwinHome
from twin.load.messages import Queue
from twin.plugins import awaiting
from twin.services import release_sources

STACK = "local"
UP = ("up", "--autoscaling", "--gateway")
ALWAYS = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "moto", "agent"),
    *("keda-operator", "keda-adapter", "prometheus-operator", "envoy-gateway"),
)
"""The processes of such a twin that belong to no pod."""
WORKER_NAMESPACE = "triton-worker"
_EXTERNAL_METRICS = "v1beta1.external.metrics.k8s.io"
_PINS = {
    # Two of each, as in a stack that has to survive the loss of one.
    "triton-eks:autoscaling.minReplicas": 2,
    "triton-eks:worker.minReplicas": 1,
    # One worker takes a whole batch: another worker gets its messages a minute after it was killed.
    "triton-eks:worker.concurrency": 10,
}


@dataclass(frozen=True)
class Site:
    """A twin that is up with a gateway, KEDA, Prometheus and workers."""

    twin: Twin

    @classmethod
    def bring_up(cls, home: TwinHome) -> Site:
        """Bring up a twin with two of everything that answers requests, and wait until all of it is healthy."""
        twin = Twin(home)
        for key, value in _PINS.items():
            twin.pin(key, value)
        site = cls(twin)
        site.up()
        s3, bucket = site.aws("s3"), site.outputs["requestBucket"]
        # Versioning shows if a result is written twice.
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        site.wait_until_well(120)
        return site

    @property
    def kube(self) -> KubeClient:
        return self.twin.servers().cluster().client

    @property
    def home(self) -> TwinHome:
        return self.twin.home

    def up(self) -> str:
        """Run `make up` with this twin's options, which must succeed, and return its output."""
        done = self.twin.run(*UP, seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs; the queue and the buckets have the same names in every account."""
        return dict(self.twin.servers().engine().outputs(STACK))

    def aws(self, service: str) -> Any:
        return account.client(self.home.load_endpoints().aws_url or "", service)

    def queue(self) -> Queue:
        return Queue(self.home.load_endpoints().aws_url or "", account.REGION, self.outputs)

    def load(self) -> Load:
        services = self.kube.get(object_path("v1", "services", GATEWAY_NAMESPACE))["items"]
        address = next(one["ip"] for item in services for one in item["status"]["loadBalancer"].get("ingress", []))
        return Load(f"ipv4:{address}:{TRITON_GRPC_PORT}")

    def uids(self) -> set[str]:
        """Return the UIDs of all pods that the API has, including terminating pods."""
        return {pod["metadata"]["uid"] for pod in self.kube.get(object_path("v1", "pods"))["items"]}

    def pods(self, namespace: str, name: str = "") -> list[Object]:
        """Return the pods whose names have this prefix, without terminating pods, oldest first."""
        found = self.kube.get(object_path("v1", "pods", namespace))["items"]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        named = [pod for pod in staying if pod["metadata"]["name"].startswith(name)]
        return sorted(named, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def asked(self, pod: Object) -> int:
        """Return the number of requests that a Triton pod has answered since its server started."""
        url = f"http://{loopback(pod['status']['podIP'])}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/stats"
        answer = httpx.get(url, timeout=5, trust_env=False).raise_for_status().json()
        return sum(one["inference_count"] for one in answer["model_stats"])

    def process_of(self, namespace: str, container: str) -> str:
        """Return the process name of a container of the oldest pod in a namespace."""
        for pod in self.pods(namespace):
            name = f"pod-{pod['metadata']['uid']}-{container}"
            if processes.find(self.home, name) is not None:
                return name
        raise AssertionError(f"no pod of {namespace} runs {container} as a process")

    def record(self, name: str) -> processes.Record:
        record = processes.find(self.home, name)
        assert record is not None, f"no process {name} is running"
        return record

    def kill(self, name: str) -> processes.Record:
        """Send SIGKILL to a process, and return its record."""
        record = self.record(name)
        processes.signal_record(record, signal.SIGKILL)
        until(lambda: not record.alive(), f"{name} to be gone", 30)
        return record

    def started_again(self, before: processes.Record) -> bool:
        """Return whether the process of a record was restarted as another process."""
        record = processes.find(self.home, before.name)
        return record is not None and record.pid != before.pid

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Suspend a process during the block (SIGSTOP): it accepts connections and answers nothing."""
        record = self.record(name)
        os.kill(record.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(record.pid, signal.SIGCONT)

    def send(self, number: int) -> set[str]:
        """Send this number of messages to the queue, and return their ids."""
        sqs, ids = self.aws("sqs"), set()
        shape = {"name": "VALUES", "datatype": "FP32", "shape": [1, 4]}
        bodies = [{"model": MODEL, "inputs": [{**shape, "data": [one, 0.5, 0, 0]}]} for one in range(number)]
        for first in range(0, number, 10):
            entries = [{"Id": str(n), "MessageBody": json.dumps(body)} for n, body in enumerate(bodies[first : first + 10])]
            answer = sqs.send_message_batch(QueueUrl=self.outputs["requestQueueUrl"], Entries=entries)
            ids |= {entry["MessageId"] for entry in answer["Successful"]}
        assert len(ids) == number, "a message was not accepted"
        return ids

    def under_way(self) -> int:
        """Return the number of messages that workers hold."""
        names = ["ApproximateNumberOfMessagesNotVisible"]
        found = self.aws("sqs").get_queue_attributes(QueueUrl=self.outputs["requestQueueUrl"], AttributeNames=names)
        return int(found["Attributes"][names[0]])

    def results(self, sent: set[str]) -> dict[str, int]:
        """Return the number of times that each message's result was written, without messages that have no result."""
        pages = self.aws("s3").get_paginator("list_object_versions")
        written: dict[str, int] = {}
        for page in pages.paginate(Bucket=self.outputs["requestBucket"], Prefix=f"results/{MODEL}/"):
            for version in page.get("Versions", []):
                message = version["Key"].rpartition("/")[2].partition(".")[0]
                written[message] = written.get(message, 0) + 1
        return {message: written[message] for message in sent & written.keys()}

    def given_up(self) -> int:
        """Return the number of messages in the dead-letter queue."""
        sqs = self.aws("sqs")
        names = ["ApproximateNumberOfMessages"]
        url = sqs.get_queue_url(QueueName=self.outputs["requestQueueUrl"].rpartition("/")[2] + "-dead")["QueueUrl"]
        return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][names[0]])

    def lose(self, node: str) -> list[str]:
        """Delete a machine at once with its pods. Wait for the replacement pods, and return the names of the lost pods.

        The next machine has the same name. Until replacements exist, counts of ready pods may still include the lost pods.
        """
        path = object_path("v1", "nodes", None, node)
        before = self._counted()
        self.kube.delete(path)
        found = self.kube.get(object_path("v1", "pods"), fieldSelector=f"spec.nodeName={node}")["items"]
        for pod in found:
            metadata = pod["metadata"]
            self.kube.delete(object_path("v1", "pods", metadata["namespace"], metadata["name"]), {"gracePeriodSeconds": 0})
        lost = {pod["metadata"]["uid"] for pod in found}
        places = Counter(_owner(pod) for pod in before if pod["metadata"]["uid"] in lost)
        known = {pod["metadata"]["uid"] for pod in before}

        def replaced() -> bool:
            others = Counter(_owner(pod) for pod in self._counted() if pod["metadata"]["uid"] not in known)
            return others >= places

        until(replaced, f"others in the place of the pods of {node}", 120)
        return sorted(pod["metadata"]["name"] for pod in found)

    def release(self, path: str, more: str) -> None:
        """Release the twin's models with text appended to one of their files, and pin that release."""
        models = self.home.path / "tmp" / "changed-models"
        shutil.rmtree(models, ignore_errors=True)
        shutil.copytree(release_sources.directory(self.home).parent, models)
        with (models / "models" / path).open("a") as file:
            file.write(more)
        bucket = self.outputs["modelBucket"]
        released = self.twin.shell(f"python -m modelctl release {models / 'models'} --bucket {bucket} --pin {self.pinned()}")
        assert released.returncode == 0, released.stderr

    def engine_is(self, doing: str) -> bool:
        """Return whether the engine has a pending operation of that kind."""
        try:
            state = json.loads((self.home.path / "state/.pulumi/stacks/triton-eks/local.json").read_text())
        except (FileNotFoundError, ValueError):
            return False
        return any(one["type"] == doing for one in state["checkpoint"]["latest"].get("pending_operations") or [])

    def signal_engine(self, number: int) -> None:
        """Send a signal to the engine and its plugins."""
        for pid in processes.marked(self.home, engine.process_name(STACK)):
            with contextlib.suppress(ProcessLookupError):  # a plugin ends with its engine
                os.kill(pid, number)

    def ailments(self) -> list[str]:
        """Return all differences from the state after `make up`; empty if the twin is healthy."""
        found = [f"{name} does not run" for name in ALWAYS if processes.find(self.home, name) is None]
        if found:
            return found
        try:
            return self._of_the_cluster()
        except (KubeError, httpx.HTTPError) as error:
            return [f"{type(error).__name__}: {error}"]

    def unready(self) -> list[str]:
        """Return the pods of Deployments and StatefulSets that are not ready, without reading the owners' counts."""
        found = [pod for pod in self._counted() if _untrue(pod, {"Ready": "True"})]
        return [f"{pod['metadata']['name']} is not ready" for pod in found]

    def _counted(self) -> list[Object]:
        """Return the pods that Deployments and StatefulSets count: neither terminating nor terminated."""
        found = self.kube.get(object_path("v1", "pods"))["items"]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in staying if _owner(pod) and pod["status"].get("phase") not in {"Succeeded", "Failed"}]

    def _of_the_cluster(self) -> list[str]:
        found = []
        kube = self.kube
        for plural in ("deployments", "statefulsets"):
            for item in kube.get(object_path("apps/v1", plural))["items"]:
                status, wanted, name = item.get("status", {}), item["spec"]["replicas"], item["metadata"]["name"]
                counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
                if status.get("observedGeneration") != item["metadata"]["generation"] or counts != [wanted] * 3:
                    found.append(f"{name} has {counts} of {wanted} pods (all, updated, ready)")
        found += self.unready()
        service = kube.get(object_path("apiregistration.k8s.io/v1", "apiservices", None, _EXTERNAL_METRICS))
        found += [f"KEDA's metrics: {one}" for one in _untrue(service, {"Available": "True"})]
        for item in kube.get(object_path("keda.sh/v1alpha1", "scaledobjects"))["items"]:
            told = _untrue(item, {"Ready": "True", "Fallback": "False"})
            found += [f"ScaledObject {item['metadata']['name']}: {one}" for one in told]
            found += self._below_its_least(item)
        found += self._of_the_envoys()
        for url in self.twin.servers().prometheus_urls() or ["http://127.0.0.1:1"]:
            answer = httpx.get(f"{url}/api/v1/query", params={"query": "up == 1"}, timeout=5, trust_env=False)
            if answer.status_code != httpx.codes.OK or not answer.json()["data"]["result"]:
                found.append(f"Prometheus has no target that is up ({answer.status_code})")
        for pod in self.pods(TRITON_NAMESPACE):
            if not _answers(pod):
                found.append(f"{pod['metadata']['name']} does not say that it is ready")
        return found

    def _below_its_least(self, scaled: Object) -> list[str]:
        """Report a ScaledObject below its minimum: a Deployment starts with one pod, and KEDA raises the number later."""
        name, namespace = scaled["spec"]["scaleTargetRef"]["name"], scaled["metadata"]["namespace"]
        wanted = self.kube.get(object_path("apps/v1", "deployments", namespace, name))["spec"]["replicas"]
        least = scaled["spec"].get("minReplicaCount", 0)
        return [f"{name} is to have {wanted} pods, and {least} at least"] if wanted < least else []

    def _of_the_envoys(self) -> list[str]:
        """Report the Envoys that do not know exactly Triton's ready pods. They follow the pods a moment later."""
        found, ready = [], len([pod for pod in self.pods(TRITON_NAMESPACE) if not _untrue(pod, {"Ready": "True"})])
        for envoy in self.pods(GATEWAY_NAMESPACE, "envoy-"):
            url = f"http://{loopback(envoy['status']['podIP'])}:19001/stats/prometheus"
            stats = httpx.get(url, timeout=5, trust_env=False).text
            series = rf'^envoy_cluster_membership_healthy{{envoy_cluster_name="\w+/{TRITON_NAMESPACE}/[^"]*"}} (\d+)$'
            known = re.findall(series, stats, re.MULTILINE)
            if set(known) != {str(ready)}:
                found.append(f"{envoy['metadata']['name']} has {known} pods for the models, and {ready} are ready")
        return found

    def wait_until_well(self, seconds: float) -> float:
        """Wait until this twin is healthy, and return the duration in seconds."""
        begun, said = time.monotonic(), [""]

        def well() -> bool:
            said[:] = self.ailments()
            return not said

        with contextlib.suppress(processes.DeadlinePassed):
            processes.wait_until(well, "all to be well", seconds, poll=0.5)
        assert not said, f"after {seconds:.0f} s: " + "; ".join(said)
        return time.monotonic() - begun

    def pinned(self) -> Path:
        """Return the file with this twin's own keys of the stack."""
        return stack_files.pins_file(self.home, STACK)

    def pulumi_up(self) -> Any:
        """Run `pulumi up` in the twin's shell as a person does, but without the wait for pods. Return the result."""
        unwaiting = replace(self.twin, variables={**self.twin.variables, **awaiting.WITHOUT})
        return unwaiting.run("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", STACK)


def _answers(pod: Object) -> bool:
    """Return whether a Triton pod itself reports ready, whatever the API reports about it."""
    if "podIP" not in pod["status"]:
        return False
    url = f"http://{loopback(pod['status']['podIP'])}:{TRITON_HTTP_PORT}/v2/health/ready"
    return httpx.get(url, timeout=5, trust_env=False).status_code == httpx.codes.OK


def _owner(pod: Object) -> str:
    """Return the uid of the ReplicaSet or StatefulSet that owns the pod; empty for any other pod."""
    owners = pod["metadata"].get("ownerReferences", [])
    return next((one["uid"] for one in owners if one["kind"] in {"ReplicaSet", "StatefulSet"}), "")


def _untrue(item: Object, wanted: dict[str, str]) -> list[str]:
    said = {one["type"]: one["status"] for one in item.get("status", {}).get("conditions", [])}
    return [f"{kind} is {said.get(kind)}" for kind, status in wanted.items() if said.get(kind) != status]


def until(holds: Callable[[], object], what: str, seconds: float) -> None:
    """Poll until the condition holds. Raises DeadlinePassed."""
    processes.wait_until(holds, what, seconds, poll=0.2)
