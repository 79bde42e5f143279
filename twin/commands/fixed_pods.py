"""From an autoscaler back to a fixed number of pods."""

from collections.abc import Callable, Iterator
from functools import partial

from spec.names import TRITON_NAMESPACE, WORKER
from spec.settings.source import load
from twin.cluster.kube_api import KubeClient, object_path
from twin.engine import stack_files
from twin.host import processes
from twin.host.home import TwinHome

_KEDA = "keda.sh/v1alpha1"
_SECONDS = 120.0
"""How long KEDA and the HorizontalPodAutoscaler may take, which looks every 15 s."""
_POLL_SECONDS = 1.0


def hand_back(home: TwinHome, client: KubeClient, stack: str, say: Callable[[str], None]) -> None:
    """Let each autoscaler that `stack` no longer has bring its pods to the stack's number, before `pulumi up` deletes it.

    `pulumi up` deletes last: until then the autoscaler would go on setting a number of its own, which is a conflict, or
    stays (docs/autoscaling.md#back-to-a-fixed-number). Raises DeadlinePassed, SettingsError or KubeError.
    """
    if client.kind(_KEDA, "ScaledObject") is None:
        return
    for namespace, deployment, pods in _fixed(home, stack):
        scaled = object_path(_KEDA, "scaledobjects", namespace, deployment)
        if client.find(scaled) is None:
            continue
        say(f"{deployment}: KEDA brings its pods to {pods}, the number of the stack, before it goes")
        client.patch(scaled, {"spec": {"minReplicaCount": pods, "maxReplicaCount": pods}}, "merge")
        processes.wait_until(
            partial(_has, client, namespace, deployment, pods),
            f"{deployment} to have {pods} pods by its autoscaler (logs of KEDA: `twin status`)",
            _SECONDS,
            _POLL_SECONDS,
        )


def _fixed(home: TwinHome, stack: str) -> Iterator[tuple[str, str, int]]:
    """Yield namespace, Deployment and number of pods, where the stack has a number of its own."""
    settings = load(stack_files.config(home, stack), stack)
    for fleet in settings.each_fleet:
        if fleet.stack.triton.replicas is not None:
            yield TRITON_NAMESPACE, fleet.release, fleet.stack.triton.replicas
    if settings.worker is not None and settings.worker.replicas is not None:
        yield WORKER.namespace, WORKER.name, settings.worker.replicas


def _has(client: KubeClient, namespace: str, deployment: str, pods: int) -> bool:
    """Return whether the Deployment has this number, and its autoscaler can set no other."""
    autoscalers = client.get(object_path("autoscaling/v2", "horizontalpodautoscalers", namespace))["items"]
    bounds = [found["spec"] for found in autoscalers if found["spec"]["scaleTargetRef"]["name"] == deployment]
    live = client.get(object_path("apps/v1", "deployments", namespace, deployment))
    return live["spec"]["replicas"] == pods and all((b["minReplicas"], b["maxReplicas"]) == (pods, pods) for b in bounds)
