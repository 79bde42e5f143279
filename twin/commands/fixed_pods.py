"""Switch from an autoscaler back to a fixed number of pods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from spec.names import TRITON_NAMESPACE, WORKER
from spec.settings import Settings
from twin.cluster.kube_api import KubeClient, object_path
from twin.host import processes

_KEDA = "keda.sh/v1alpha1"
_AUTOSCALING, _AUTOSCALERS = "autoscaling/v2", "horizontalpodautoscalers"
_KINDS = (
    (f"kubernetes:{_KEDA}:ScaledObject", _KEDA, "scaledobjects"),
    (f"kubernetes:{_AUTOSCALING}:HorizontalPodAutoscaler", _AUTOSCALING, _AUTOSCALERS),
)
_SECONDS = 120.0
"""The time limit for KEDA and the HorizontalPodAutoscaler; each checks again within 15 s."""
_POLL_SECONDS = 1.0
_MARK = "twin/handed-back"
"""Annotates autoscalers whose bounds differ from the bounds that the engine wrote."""


def hand_back(client: KubeClient, settings: Settings, say: Callable[[str], None]) -> None:
    """Let each autoscaler that is no longer in the stack scale its pods to the stack's fixed number.

    Call this before `pulumi up`, which deletes last: until then the autoscaler would keep its own number, which is a
    conflict or remains afterwards (docs/autoscaling.md#back-to-a-fixed-number). Raises DeadlinePassed or KubeError.
    """
    has_keda = client.kind(_KEDA, "ScaledObject") is not None
    for namespace, deployment, pods in _fixed(settings):
        scaled = object_path(_KEDA, "scaledobjects", namespace, deployment)
        autoscaler = object_path(_AUTOSCALING, _AUTOSCALERS, namespace, deployment)
        if has_keda and client.find(scaled) is not None:
            who, path, bounds = "KEDA", scaled, ("minReplicaCount", "maxReplicaCount")
        elif client.find(autoscaler) is not None:
            who, path, bounds = "the HorizontalPodAutoscaler", autoscaler, ("minReplicas", "maxReplicas")
        else:
            continue
        say(f"{deployment}: {who} brings its pods to {pods}, the number of the stack, before it goes")
        client.patch(path, {"metadata": {"annotations": {_MARK: str(pods)}}, "spec": dict.fromkeys(bounds, pods)}, "merge")
        processes.wait_until(
            partial(_has, client, namespace, deployment, pods),
            f"{deployment} to have {pods} pods by its autoscaler (`kubectl describe hpa -n {namespace}` says what it does)",
            _SECONDS,
            _POLL_SECONDS,
        )


def take_back(client: KubeClient, settings: Settings, say: Callable[[str], None]) -> None:
    """Delete the stack's autoscalers that an interrupted `hand_back` left with bounds unknown to the engine.

    See `is_gone` for the `up` that follows. Raises DeadlinePassed or KubeError.
    """
    has_keda = client.kind(_KEDA, "ScaledObject") is not None
    for namespace, deployment in _scaled(settings):
        candidates = [object_path(_AUTOSCALING, _AUTOSCALERS, namespace, deployment)]
        if has_keda:
            candidates.insert(0, object_path(_KEDA, "scaledobjects", namespace, deployment))
        for path in candidates:
            live = client.find(path)
            if live is None or _MARK not in (live["metadata"].get("annotations") or {}):
                continue
            say(f"{deployment}: its autoscaler is made anew; an `up` without one was ended before that one had gone")
            client.delete(path)
            processes.wait_until(partial(_is_gone, client, path), f"{path} to be deleted", _SECONDS, _POLL_SECONDS)


def is_gone(client: KubeClient, resources: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether an autoscaler in the engine's state is missing in the cluster.

    The engine recreates it only after a refresh.
    """
    return any(
        _is_gone(client, object_path(version, plural, *one["id"].split("/")))
        for one in resources
        for kind, version, plural in _KINDS
        if one["type"] == kind
    )


def _scaled(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each Deployment that an autoscaler scales."""
    for fleet in settings.each_fleet:
        if fleet.stack.triton.replicas is None:
            yield TRITON_NAMESPACE, fleet.release
    if settings.worker is not None and settings.worker.replicas is None:
        yield WORKER.namespace, WORKER.name


def _is_gone(client: KubeClient, path: str) -> bool:
    return client.find(path) is None


def _fixed(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """Yield namespace, name and replicas of each Deployment with a fixed number of pods."""
    for fleet in settings.each_fleet:
        if fleet.stack.triton.replicas is not None:
            yield TRITON_NAMESPACE, fleet.release, fleet.stack.triton.replicas
    if settings.worker is not None and settings.worker.replicas is not None:
        yield WORKER.namespace, WORKER.name, settings.worker.replicas


def _has(client: KubeClient, namespace: str, deployment: str, pods: int) -> bool:
    """Return whether the Deployment has this number of replicas, and its autoscaler allows no other."""
    autoscalers = client.get(object_path(_AUTOSCALING, _AUTOSCALERS, namespace))["items"]
    bounds = [found["spec"] for found in autoscalers if found["spec"]["scaleTargetRef"]["name"] == deployment]
    live = client.get(object_path("apps/v1", "deployments", namespace, deployment))
    return live["spec"]["replicas"] == pods and all((b["minReplicas"], b["maxReplicas"]) == (pods, pods) for b in bounds)
