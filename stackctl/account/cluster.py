"""Read the stack's cluster through its API, and send requests to its pods.

The requests go through the API server.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from console import kubernetes_status
from console.bounded import MIB, Bounded
from console.port_forward import ForwardDenied, ForwardLost, PortClosed, PortForwards
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.names import GATEWAY, GATEWAY_NAMESPACE, TRITON_CHART, TRITON_HTTP_PORT, TRITON_NAMESPACE, TRITON_RELEASE
from spec.reading import Unreadable

_TIMEOUT = (5.0, 30.0)
_ANSWER_SECONDS = 60.0
_LARGEST_ANSWER = 64 * MIB
_ROLE = "eks.amazonaws.com/role-arn"
_LOG_LINES = 5
_HOPELESS = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CrashLoopBackOff")
"""Reasons of waiting containers that need a repair."""
_NO_NODE = ("FailedScheduling", "NotTriggerScaleUp")
_NODE_COMES = ("Nominated", "TriggeredScaleUp")
"""Events of Karpenter and cluster-autoscaler about a pod that fits no node."""
_SCHEDULER = "default-scheduler"
"""The scheduler also writes FailedScheduling for every such pod."""

_CONDITION = {"type": str, "status": str, "lastTransitionTime": str}
_RUNNING = {"running": {"startedAt": str}}
_LISTED = {
    "metadata": {
        **dict.fromkeys(("name", "namespace", "creationTimestamp", "deletionTimestamp"), str),
        "labels": {str: str},
    },
    "spec": {"replicas": int, "scaleTargetRef": {}, "taints": [{}], "type": str},
    "status": {
        "addresses": [{"value": str}],
        "allocatable": {},
        "conditions": [_CONDITION],
        "containerStatuses": [{"name": str, "restartCount": int, "state": _RUNNING}],
        "expectedPods": int,
        "loadBalancer": {"ingress": [{}]},
        "readyReplicas": int,
    },
}
"""The fields that are read of an object of any kind."""


class ClusterUnusable(Failure):
    """The stack's cluster does not answer correctly. The text gives the reason and the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Pod:
    """A pod of Triton. `status` is Ready, or the reason why it is not."""

    name: str
    status: str
    hopeless: bool
    unschedulable: bool = False
    """The pod fits no node."""

    @property
    def ready(self) -> bool:
        """Return whether it accepts requests."""
        return self.status == "Ready"


@dataclass(frozen=True)
class AutoscalerEvent:
    """A node autoscaler's event about a pod that fits no node. `promise`: it starts a node for the pod."""

    promise: bool
    at: datetime
    text: str


class Cluster:
    """The API of one cluster. `release` is the Triton fleet to read."""

    def __init__(self, api: client.ApiClient, release: str = TRITON_RELEASE) -> None:
        self._api = api
        self._release = release
        self._host: str = api.configuration.host
        self._core = client.CoreV1Api(api)
        self._apps = client.AppsV1Api(api)
        self._custom = client.CustomObjectsApi(api)

    def require_role(self, role_arn: str) -> None:
        """Refuse a cluster whose Triton has another role than this stack's. Raises ClusterUnusable."""
        with self._sentences():
            account = self._core.read_namespaced_service_account(self._release, TRITON_NAMESPACE, _request_timeout=_TIMEOUT)
        metadata = self._part(account, "metadata")
        found = (metadata.annotations or {}).get(_ROLE)
        if found != role_arn:
            raise ClusterUnusable(
                f"the cluster at {self._host}, which KUBECONFIG names, is not this stack's: its Triton has role {found}, "
                f"and this stack's {role_arn}; unset KUBECONFIG, or set it to the stack's"
            )

    def rolled_out(self) -> bool:
        """Return whether every pod of the fleet exists and runs the last `up`."""
        with self._sentences():
            found = self._apps.read_namespaced_deployment(self._release, TRITON_NAMESPACE, _request_timeout=_TIMEOUT)
        status, wanted = self._part(found, "status"), self._part(found, "spec").replicas or 0
        return bool(
            (status.observed_generation or 0) >= (self._part(found, "metadata").generation or 0)
            and (status.updated_replicas or 0) >= wanted > 0
            and (status.replicas or 0) == (status.available_replicas or 0) == (status.updated_replicas or 0)
        )

    def pods(self) -> list[Pod]:
        """Return the pods of the fleet that are not terminating."""
        with self._sentences():
            selector = f"app.kubernetes.io/name={TRITON_CHART},app.kubernetes.io/instance={self._release}"
            found = self._core.list_namespaced_pod(TRITON_NAMESPACE, label_selector=selector, _request_timeout=_TIMEOUT)
            return [_pod(pod) for pod in self._part(found, "items") if pod.metadata.deletion_timestamp is None]

    def autoscaler_event(self, pod: str) -> AutoscalerEvent | None:
        """Return the newest node autoscaler event about a pod that fits no node. Raises ClusterUnusable."""
        with self._sentences():
            listed = self._core.list_namespaced_event(
                TRITON_NAMESPACE, field_selector=f"involvedObject.name={pod}", _request_timeout=_TIMEOUT
            )
            said = [event for event in self._part(listed, "items") if event.reason in (*_NO_NODE, *_NODE_COMES)]
            said = [event for event in said if _source(event) != _SCHEDULER]
            newest = max(said, key=_last_seen, default=None)
            if newest is None:
                return None
            text = f"{_source(newest) or newest.reason}: {' '.join((newest.message or '').split())}"
            return AutoscalerEvent(newest.reason in _NODE_COMES, _last_seen(newest), text)

    def last_lines(self, pod: str) -> list[str]:
        """Return the end of a pod's log; empty without a log."""
        try:
            said = self._core.read_namespaced_pod_log(
                pod, TRITON_NAMESPACE, tail_lines=_LOG_LINES, _request_timeout=_TIMEOUT
            )
        except (ApiException, HTTPError, ValueError):  # a line may not be text
            return []
        return str(said).splitlines()

    def gateway_address(self) -> str | None:
        """Return the name or address of the gateway's load balancer, or None. Raises ClusterUnusable."""
        place = ("gateway.networking.k8s.io", "v1", GATEWAY_NAMESPACE, "gateways", GATEWAY)
        with self._sentences():
            found: Any = self._custom.get_namespaced_custom_object(*place, _request_timeout=_TIMEOUT)
        try:
            reading.checked(found, {"metadata": {"name": str}, "status": {"addresses": [{"value": str}]}}, "the gateway")
        except Unreadable as error:
            raise self._somebody_else() from error
        if "metadata" not in found:
            raise self._somebody_else()
        addresses = (found.get("status") or {}).get("addresses") or []
        return next((str(address["value"]) for address in addresses if address.get("value")), None)

    def objects(self, path: str) -> list[dict[str, Any]]:
        """Return the objects at a list path of the API, like `/api/v1/nodes`.

        Empty if the cluster does not know the kind. Each object has a name, a spec and a status, which may be empty, and
        no null. Raises ClusterUnusable.
        """
        content = self._get(path)
        if content is None:
            return []
        try:
            found = reading.checked(reading.answer(content, self._host), {"items": [_LISTED]}, path)
        except Unreadable as error:
            raise self._somebody_else() from error
        if not isinstance(found.get("items"), list) or not all(map(_is_whole, found["items"])):
            raise self._somebody_else()
        return [{"spec": {}, "status": {}, **_without_nulls(item)} for item in found["items"]]

    def text(self, path: str) -> str:
        """Return the text at a path of the API, like a pod's metrics. Raises ClusterUnusable."""
        content = self._get(path)
        if content is None:
            raise ClusterUnusable(f"the cluster at {self._host} has nothing at {path}")
        return content.decode(errors="replace")

    def _get(self, path: str) -> bytes | None:
        """Return the content at a path of the API, or None. Raises ClusterUnusable."""
        asked = self._api.param_serialize("GET", path, auth_settings=["BearerToken"])
        with self._sentences():
            answer = self._api.call_api(*asked, _request_timeout=_TIMEOUT)
            content = answer.response.read(_LARGEST_ANSWER + 1) or b""
            if len(content) > _LARGEST_ANSWER:
                raise ClusterUnusable(f"the cluster at {self._host} answers {path} with more than {_LARGEST_ANSWER} bytes")
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            if answer.status != HTTPStatus.OK:
                raise ApiException(answer.status, answer.reason, content.decode(errors="replace"))
        return content

    def post(self, pod: str, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Send a document to a pod's HTTP port; return status and content.

        It goes through the API server. Raises ClusterUnusable.
        """
        forwards = PortForwards(self._api, TRITON_NAMESPACE)
        try:
            transport = Bounded(forwards.transport(), _LARGEST_ANSWER)
            with httpx.Client(transport=transport, timeout=_ANSWER_SECONDS, trust_env=False) as triton:
                answer = triton.post(f"http://{pod}:{TRITON_HTTP_PORT}{path}", json=dict(body))
        except (PortClosed, ForwardLost, ForwardDenied, httpx.TransportError) as error:
            said = str(error) or type(error).__name__
            raise ClusterUnusable(f"pod {pod} cannot be asked through the API server: {said}") from None
        return answer.status_code, answer.content

    def _part(self, found: Any, name: str) -> Any:
        """Return a part that each such object has. Raises ClusterUnusable if it is missing."""
        part = getattr(found, name, None)
        if part is None:
            raise self._somebody_else()
        return part

    def _somebody_else(self) -> ClusterUnusable:
        return ClusterUnusable(f"what answers at {self._host} is no API server of Kubernetes; {reading.IN_BETWEEN}")

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            said = " ".join((kubernetes_status.message(error.body, "") or error.reason or "").split())[:300]
            answers = f"answers {error.status}" if error.status else "cannot be reached"
            raise ClusterUnusable(f"the cluster at {self._host} {answers}: {said}") from None
        except (HTTPError, OSError) as error:
            raise ClusterUnusable(
                f"the cluster at {self._host} cannot be reached: {error}; is its API open to this machine "
                "(cluster.publicAccessCidrs), or is there a way into its VPC?"
            ) from None
        except (ValueError, TypeError, AttributeError) as error:
            # The client parses a response into objects without checking it.
            raise self._somebody_else() from error


@contextmanager
def connect(name: str, region: str, role_arn: str, release: str = TRITON_RELEASE) -> Iterator[Cluster]:
    """Open the stack's cluster with KUBECONFIG, or without it as `aws eks update-kubeconfig` does.

    `release`: the fleet to read. Raises ClusterUnusable, also if KUBECONFIG is for another cluster.
    """
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="stackctl-")))
        given, settings = os.environ.get("KUBECONFIG"), client.Configuration()
        file = given or _kubeconfig(folder / "kubeconfig", name, region)
        try:
            config.load_kube_config(config_file=file, client_configuration=settings, temp_file_path=str(folder))
        # The library uses values without checking them.
        except (ConfigException, TypeError, AttributeError, KeyError, ValueError, RecursionError, YAMLError) as error:
            said = " ".join(str(error).split())
            raise ClusterUnusable(f"{file} is no kubeconfig ({said}); unset KUBECONFIG, or set it to the stack's") from None
        found = Cluster(client.ApiClient(settings), release)
        if given:
            found.require_role(role_arn)
        yield found


def _kubeconfig(file: Path, name: str, region: str) -> str:
    command = ["aws", "eks", "update-kubeconfig", "--name", name, "--region", region, "--kubeconfig", str(file)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise ClusterUnusable(f"`{' '.join(command[:7])}` ended with an error: {done.stderr.strip()}")
    return str(file)


def _pod(found: Any) -> Pod:
    conditions = {condition.type: condition for condition in found.status.conditions or ()}
    ready = conditions.get("Ready")
    if ready is not None and ready.status == "True":
        return Pod(found.metadata.name, "Ready", hopeless=False)
    states = [*(found.status.init_container_statuses or ()), *(found.status.container_statuses or ())]
    waiting = next((state.state.waiting for state in states if state.state and state.state.waiting), None)
    scheduled = conditions.get("PodScheduled")
    unschedulable = scheduled is not None and scheduled.status == "False"
    if waiting is not None:
        why, said = waiting.reason or "Waiting", waiting.message
    elif scheduled is not None and unschedulable:
        why, said = scheduled.reason or "Pending", scheduled.message
    else:
        why, said = found.status.phase or "Pending", None
    status = f"{why}: {' '.join(said.split())[:200]}" if said else why
    return Pod(found.metadata.name, status, hopeless=why in _HOPELESS, unschedulable=unschedulable)


def _source(event: Any) -> str:
    return str((event.source.component if event.source else None) or event.reporting_component or "")


def _last_seen(event: Any) -> datetime:
    found = (event.series.last_observed_time if event.series else None) or event.last_timestamp or event.event_time
    return found or event.metadata.creation_timestamp


def _is_whole(found: Mapping[str, Any]) -> bool:
    """Return whether an object is complete.

    It needs a name, valid times, and conditions and containers with their names.
    """
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    conditions, containers = status.get("conditions") or (), status.get("containerStatuses") or ()
    times = [
        *(metadata.get(key) for key in ("creationTimestamp", "deletionTimestamp")),
        *(one.get("lastTransitionTime") for one in conditions),
        *(((one.get("state") or {}).get("running") or {}).get("startedAt") for one in containers),
    ]
    return (
        bool(metadata.get("name"))
        and all(one.get("type") and one.get("status") for one in conditions)
        and all(one.get("name") for one in containers)
        and all(_is_moment(time) for time in times if time is not None)
    )


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _without_nulls(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _without_nulls(part) for key, part in found.items() if part is not None}
    return [_without_nulls(part) for part in found] if isinstance(found, list) else found
