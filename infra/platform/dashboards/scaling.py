"""The dashboard of the fleet's size: the autoscaler's input and actions, and the start time of new pods."""

from __future__ import annotations

from collections.abc import Sequence

from infra.platform.dashboards.board import Dashboard, Query, Row, dashboard, stages, timeseries
from spec.names import TRITON_CONTAINER, TRITON_DEPLOYMENT
from spec.prometheus.recording import BUSY, PENDING
from spec.prometheus.rule import pods_of, series

_AUTOSCALER = "{{horizontalpodautoscaler}}"
_ON_POD = "on (namespace, pod)"


def scaling(deployments: Sequence[str] = (TRITON_DEPLOYMENT,)) -> Dashboard:
    """Return the dashboard of scaling. Without an autoscaler its panels stay empty. `deployments` are of all fleets."""
    own = pods_of(deployments)
    return dashboard(
        "triton-scaling",
        "Triton: scaling",
        "Replicas and the signal that they follow, nodes, and where the time of a cold start goes.",
        [_replicas(deployments), _signal(), _capacity(own), _cold_start(own)],
    )


def _replicas(deployments: Sequence[str]) -> Row:
    of = "" if len(deployments) == 1 else "{{deployment}} "
    return Row(
        "Replicas",
        [
            timeseries(
                "Replicas",
                "Wanted, there, and ready to answer. Wanted and not there: no node. There and not ready: models load.",
                "short",
                Query(series("kube_deployment_spec_replicas", deployment=deployments), f"{of}wanted"),
                Query(series("kube_deployment_status_replicas", deployment=deployments), f"{of}there"),
                Query(series("kube_deployment_status_replicas_available", deployment=deployments), f"{of}ready"),
            ),
            timeseries(
                "Autoscaler",
                "What it wants, between its bounds. TritonAutoscalerAtMax: it wants more than it may.",
                "short",
                Query(series("kube_horizontalpodautoscaler_status_desired_replicas"), f"{_AUTOSCALER} wants"),
                Query(series("kube_horizontalpodautoscaler_spec_min_replicas"), f"{_AUTOSCALER} min"),
                Query(series("kube_horizontalpodautoscaler_spec_max_replicas"), f"{_AUTOSCALER} max"),
            ),
        ],
    )


def _signal() -> Row:
    measured, target = (f"kube_horizontalpodautoscaler_{kind}_target_metric" for kind in ("status", "spec"))
    of = "{{horizontalpodautoscaler}} {{metric_name}}"
    blind = series("kube_horizontalpodautoscaler_status_condition", condition="ScalingActive", status="false")
    return Row(
        "What it sees",
        [
            timeseries(
                "Signal per pod",
                "Above its target, pods are added; below, they are removed after the stabilization window.",
                "short",
                Query(series(measured, metric_target_type="average"), f"{of} now"),
                Query(series(target, metric_target_type="average"), f"{of} target"),
            ),
            timeseries(
                "Waiting and executing",
                "What the signal is made of: requests in the queues, and busy instances, of all pods.",
                "short",
                Query(f"sum by (model) ({series(PENDING)})", "{{model}} waiting"),
                Query(f"sum by (model) ({series(BUSY)})", "{{model}} busy"),
            ),
            timeseries(
                "Blind",
                "1: the autoscaler cannot read its metric, and leaves the number of pods as it is.",
                "short",
                Query(f"max by (horizontalpodautoscaler) ({blind})", _AUTOSCALER),
            ),
        ],
    )


def _capacity(own: str) -> Row:
    return Row(
        "Nodes",
        [
            timeseries(
                "Nodes by pool",
                "Of every pool of this platform.",
                "short",
                # A node without this label does not belong to this program.
                Query(
                    'count by (label_triton_eks_pool) (kube_node_labels{label_triton_eks_pool!=""})',
                    "{{label_triton_eks_pool}}",
                ),
            ),
            timeseries(
                "Pods without a node",
                "Waiting for an autoscaler of nodes, or for somebody to raise a pool's size.",
                "short",
                Query(f"sum({series('kube_pod_status_unschedulable', own)}) or vector(0)", "unschedulable"),
                Query(f"sum({series('kube_pod_status_phase', own, phase='Pending')}) or vector(0)", "pending"),
            ),
        ],
    )


def _cold_start(own: str) -> Row:
    created, scheduled, initialized, ready = (
        series(name, own)
        for name in (
            "kube_pod_created",
            "kube_pod_status_scheduled_time",
            "kube_pod_status_initialized_time",
            "kube_pod_status_ready_time",
        )
    )
    started = series("kube_pod_container_state_started", own, container=TRITON_CONTAINER)
    return Row(
        "Cold start",
        [
            stages(
                "Where the time of a start went",
                "Of the pods that run. Node: until one had room. Volumes: until they were mounted. Image: until it was "
                "pulled and the server ran. Models: until the pod was ready; a pod that was not ready for a while, or whose "
                "server restarted, shows its last time.",
                "pod",
                {
                    "node": _between(created, scheduled),
                    "volumes": _between(scheduled, initialized),
                    "image": _between(initialized, started),
                    "models": _between(started, ready),
                },
            ),
            timeseries(
                "Time to ready",
                "From a pod's creation until it was ready: the slowest of those that run, which the autoscaler's behaviour "
                "has to allow for.",
                "s",
                Query(f"max({_between(created, ready)})", "slowest"),
                Query(f"avg({_between(created, ready)})", "mean"),
            ),
            timeseries(
                "Model load time",
                "The longest of all pods; servers from 24.11 on say it.",
                "s",
                Query(f"max by (model, version) ({series('nv_model_load_duration_secs')})", "{{model}} {{version}}"),
            ),
        ],
    )


def _between(begin: str, end: str) -> str:
    return f"max by (pod) ({end} - {_ON_POD} {begin})"
