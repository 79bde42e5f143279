"""Alerts about Triton itself: its pods, its models, its queues.

Unless noted otherwise, an alert stays inactive while a model has no traffic. A rollout alone raises no alert: a pod that
loads its models is not faulty, and pods may differ while the Deployment replaces them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spec.names import TRITON_CONTAINER, TRITON_NAMESPACE
from spec.prometheus.rule import JOB, Group, Rule, alert, answering, duration, group, pods_of, series
from spec.prometheus.timing import start_seconds, timing
from spec.settings.fleets import Fleet
from spec.settings.model import Settings

QUEUE_TIME_MS = 50
"""The limit of the mean queue time for a model without an SLO."""
QUEUE_SHARE_OF_SLO = 0.5
"""The limit of the mean queue time as a share of the p95, for a model with an SLO."""
IDLE_SHARE = 0.05
"""The share of an hour in which a GPU computes. Below it for 6 hours, the GPU is paid for but hardly used."""
_DOWN_SECONDS = 120
_STUCK_SECONDS = 180

_UP = series("up", job=JOB)
_PENDING = series("nv_inference_pending_request_count")


def rolling(deployments: Sequence[str]) -> str:
    """Return an expression that is true while pods of an older template exist. TritonRolloutStuck reports a rollout that
    hangs."""
    updated = series("kube_deployment_status_replicas_updated", deployment=deployments)
    there = series("kube_deployment_status_replicas", deployment=deployments)
    return f"(max by (namespace) ({updated} != {there}))"


def alert_group(settings: Settings) -> Group:
    """Return the alerts about Triton in a stack."""
    return group(
        "triton.alerts",
        [*_pods(settings), *_models(settings), *_queue_times(settings), *_load(settings), *_resources(settings)],
    )


def _pods(settings: Settings) -> list[Rule]:
    start, own, deployments = timing(settings).start, _own_pods(settings), _deployments(settings)
    ready = series("kube_pod_status_ready", own, condition="true")
    running = series("kube_pod_status_phase", own, phase="Running")
    exit_code = series("kube_pod_container_status_last_terminated_exitcode", own, container=TRITON_CONTAINER)
    restarts = series("kube_pod_container_status_restarts_total", own, container=TRITON_CONTAINER)
    progressing = series("kube_deployment_status_condition", deployment=deployments, condition="Progressing", status="false")
    return [
        *(rule for fleet in settings.each_fleet for rule in _down(fleet, start)),
        alert(
            "TritonTargetDown",
            # Without kube-state-metrics no loading pods are known, so a start raises this alert too.
            f"(max by (namespace, pod) ({_UP}) == 0)\nunless on (namespace, pod) ({ready} == 0)",
            lasting="3m",
            severity="warning",
            summary="Triton's metrics of {{ $labels.pod }} cannot be read",
            description="The pod is ready, so it serves, but Prometheus has not reached its port 8002 for 3 minutes. "
            "Nothing that happens in this pod raises an alert until it does.",
        ),
        alert(
            "TritonPodNotReady",
            f"max by (namespace, pod) ({running} == 1)\nand on (namespace, pod) ({ready} == 0)",
            lasting=duration(start + _DOWN_SECONDS),
            severity="warning",
            summary="{{ $labels.pod }} runs and does not get ready",
            description=f"The pod has been running for longer than a start may take ({duration(start)}) and its readiness "
            "probe does not pass. It takes no traffic; the other pods carry its share.",
        ),
        alert(
            "TritonContainerCrashed",
            f"max by (namespace, pod) ({exit_code} > 0)\n"
            f"and on (namespace, pod) max by (namespace, pod) (increase({restarts}[15m])) > 0",
            lasting="0m",
            severity="warning",
            summary="tritonserver in {{ $labels.pod }} ended with exit code {{ $value }}",
            description="The server ended by itself and was started again; what it was working on failed, and its models "
            "are being loaded anew. 1: a model did not load, or a drain was cut short. 137: killed, mostly for memory. "
            "139: a crash of the server.",
        ),
        alert(
            "TritonRolloutStuck",
            f"max by (namespace, deployment) ({progressing} == 1)",
            lasting="1m",
            severity="warning",
            summary="The rollout of {{ $labels.deployment }} has stopped",
            description="New pods did not get ready before the Deployment's progress deadline. The old pods that are left "
            "go on serving the old release; the fleet is smaller than it should be.",
        ),
    ]


def _deployments(settings: Settings) -> list[str]:
    return [fleet.release for fleet in settings.each_fleet]


def _own_pods(settings: Settings) -> str:
    """Return the matcher of the pods of all fleets."""
    return pods_of(_deployments(settings))


def _of(fleet: Fleet[Settings]) -> tuple[list[str], dict[str, str]]:
    """Return the matchers of a fleet's pods and the label of its alerts; both are empty if there is no other fleet."""
    return ([], {}) if fleet.name is None else ([pods_of([fleet.release])], {"fleet": fleet.name})


def _is_unasked(fleet: Fleet[Settings]) -> bool:
    """Return whether the fleet is a candidate without requests, so none can fail."""
    return fleet.candidate and fleet.percent == 0


def _longest_absence(fleet: Fleet[Settings], start: int) -> int:
    """Return how many seconds an established fleet may have no pod that answers."""
    if fleet.stack.fewest_pods == 0:
        return start_seconds(fleet.stack)  # all its pods are new and may need a node first
    # The pod of a single-pod fleet is away during each rollout, for the time of a start.
    return start if fleet.stack.fewest_pods == 1 else 0


def _started(fleet: Fleet[Settings], absence: int) -> str:
    """Return an expression that is true once a fleet's Deployment has had a start's time, less the `absence`.

    The alert waits for the `absence` anyway. The expression is false before the Deployment exists, because Prometheus has
    the rule of a new fleet before its nodes and pods exist. A deleted Deployment counts for one more day. Without
    kube-state-metrics the Deployment is unknown, so a first start raises the alert.
    """
    created = series("kube_deployment_created", deployment=fleet.release)
    longest = max(0, start_seconds(fleet.stack) - absence)
    return f"time() - max(max_over_time({created}[1d])) >= {longest} or absent(kube_deployment_created)"


def _down(fleet: Fleet[Settings], start: int) -> list[Rule]:
    if fleet.stack.models.release is None or _is_unasked(fleet):
        return []  # the platform without Triton, or pods without requests
    own, label = _of(fleet)
    named, failing = ("Triton", "Every inference request") if fleet.name is None else (fleet.release, "Every request to it")
    absence = _longest_absence(fleet, start)
    lasting = duration(absence + _DOWN_SECONDS)
    answers = answering(fleet.stack, *own)
    # A fleet that may have no pod is down only if it should have one now.
    wanted = series("kube_deployment_spec_replicas", deployment=fleet.release)
    down = (
        f"absent({answers})\nand on () ({_started(fleet, absence)})"
        if fleet.stack.fewest_pods
        else f"{wanted} > 0\nunless on (namespace) ({answers})"
    )
    return [
        alert(
            "TritonDown",
            down,
            lasting=lasting,
            severity="critical",
            labels={"namespace": TRITON_NAMESPACE, **label},
            summary=f"No {named} pod answers",
            description=f"For {lasting} not one {named} pod has been reachable. {failing} fails.",
        )
    ]


def _models(settings: Settings) -> list[Rule]:
    return [
        *(_skew(fleet) for fleet in settings.each_fleet),
        *(rule for fleet in settings.each_fleet for rule in _not_served(fleet)),
    ]


def _skew(fleet: Fleet[Settings]) -> Rule:
    """Compare the pods of each fleet separately, because a release and its candidate may differ."""
    own, label = _of(fleet)
    pending = series("nv_inference_pending_request_count", *own)
    version = f"count by (namespace, model, version) (group by (namespace, pod, model, version) ({pending}))"
    of = "" if fleet.name is None else f" of fleet {fleet.name}"
    return alert(
        "TritonModelVersionSkew",
        f"({version}\n< on (namespace, model) group_left () {_serving(pending)})\n"
        f"unless on (namespace) {rolling([fleet.release])}",
        lasting="30m",
        severity="warning",
        labels=label,
        summary=f"Only some pods{of} serve version {{{{ $labels.version }}}} of {{{{ $labels.model }}}}",
        description=f"{{{{ $value }}}} of the pods{of} that serve {{{{ $labels.model }}}} have its version "
        "{{ $labels.version }}, the others do not, and no rolling update is going on. What a client gets depends on the pod "
        "that answers.",
    )


def _serving(pending: str) -> str:
    return f"count by (namespace, model) (group by (namespace, pod, model) ({pending}))"


def _not_served(fleet: Fleet[Settings]) -> list[Rule]:
    """Return a rule for models that some pods of a fleet lack, and rules for models that all of them lack."""
    own, label = _of(fleet)
    of, its, failing = "", "the release of this stack", "Every request for it fails."
    if fleet.name is not None:
        of, its, failing = (
            f" of fleet {fleet.name}",
            "the models of that fleet",
            "Requests for it that come here fail.",
        )
    there = f"count by (namespace) ({answering(fleet.stack, *own)})"
    release = None if _is_unasked(fleet) else fleet.stack.models.release
    return [
        alert(
            "TritonModelNotServed",
            f"{_serving(series('nv_inference_pending_request_count', *own))}\n< on (namespace) group_left () {there}",
            lasting="10m",
            severity="warning",
            labels=label,
            summary=f"{{{{ $labels.model }}}} is missing on some pods{of}",
            description=f"Only {{{{ $value }}}} of the pods{of} that answer have {{{{ $labels.model }}}} loaded. "
            "Requests for it that reach another pod fail.",
        ),
        *(
            alert(
                "TritonModelNotServed",
                f"{there}\nunless on (namespace) {series('nv_inference_pending_request_count', *own, model=model)}",
                lasting="10m",
                severity="critical",
                labels={"model": model, **label},
                summary=f"No pod{of} serves {model}",
                description=f"{{{{ $value }}}} pods{of} answer and none of them has {model} loaded, which is in {its}. "
                f"{failing}",
            )
            for model in sorted(release.models if release is not None else ())
        ),
    ]


def _queue_times(settings: Settings) -> list[Rule]:
    """Return one rule for each model with an SLO, and one for all others."""
    wants = dict(sorted(settings.models.serving.items()))
    others = [f'model!~"{"|".join(wants).replace(".", "[.]")}"'] if wants else []
    return [
        *(
            _queue_time(
                [f'model="{model}"'],
                limit_ms=want.slo_p95_ms * QUEUE_SHARE_OF_SLO,
                meaning=f"half of its SLO of {want.slo_p95_ms} ms",
                labels={"model": model},
            )
            for model, want in wants.items()
        ),
        _queue_time(others, limit_ms=QUEUE_TIME_MS, meaning=f"{QUEUE_TIME_MS} ms", labels={}),
    ]


def _queue_time(models: list[str], *, limit_ms: float, meaning: str, labels: dict[str, str]) -> Rule:
    queued = f"sum by (namespace, model) (rate({series('nv_inference_queue_duration_us', *models)}[2m]))"
    succeeded = f"sum by (namespace, model) (rate({series('nv_inference_request_success', *models)}[2m]))"
    return alert(
        "TritonQueueTimeHigh",
        f"{queued} / 1000\n/ ({succeeded} > 0)\n> {limit_ms:g}",
        lasting="5m",
        severity="warning",
        labels=labels,
        summary="Requests for {{ $labels.model }} wait long",
        description="The mean request waits {{ $value | humanize }} ms in the queue before a model instance takes it, more "
        f"than {meaning}.",
    )


def _load(settings: Settings) -> list[Rule]:
    # More than ten times the longest execution, so a working pod does not look stuck.
    stuck = duration(max(_STUCK_SECONDS, 10 * timing(settings).longest_batch))
    executions = series("nv_inference_exec_count")
    failed = series("nv_inference_request_failure")
    succeeded = series("nv_inference_request_success")
    wanted = series("kube_horizontalpodautoscaler_status_desired_replicas")
    most = series("kube_horizontalpodautoscaler_spec_max_replicas")
    fewest = series("kube_horizontalpodautoscaler_spec_min_replicas")
    return [
        alert(
            "TritonQueueGrowing",
            f"sum by (namespace, model) (min_over_time({_PENDING}[5m])) > 0\n"
            # The growth has to exceed one request a minute, because the length of a full queue fluctuates.
            f"and sum by (namespace, model) (deriv({_PENDING}[5m])) * 60 > 1",
            lasting="5m",
            severity="warning",
            summary="The queue of {{ $labels.model }} grows",
            description="For 10 minutes the queue has not been empty and has become longer: more requests arrive than the "
            "pods finish. {{ $value }} requests are waiting at least.",
        ),
        alert(
            "TritonStuck",
            f"sum by (namespace, pod, model) (min_over_time({_PENDING}[{stuck}])) > 0\n"
            f"and sum by (namespace, pod, model) (rate({executions}[{stuck}])) == 0",
            lasting="1m",
            severity="critical",
            summary="{{ $labels.pod }} does not execute {{ $labels.model }}",
            description=f"Nothing has been executed for {stuck}, and {{{{ $value }}}} requests or more wait in this pod. "
            "They will time out; the pod still counts as ready and gets new ones.",
        ),
        alert(
            "TritonRequestFailures",
            f"sum by (namespace, model, reason) (rate({failed}[5m]))\n"
            "/ on (namespace, model) group_left () (\n"
            f"  sum by (namespace, model) (rate({succeeded}[5m]))\n"
            f"  + sum by (namespace, model) (rate({failed}[5m])) > 0)\n"
            "> 0.01",
            lasting="5m",
            severity="warning",
            summary="{{ $value | humanizePercentage }} of the requests for {{ $labels.model }} fail ({{ $labels.reason }})",
            description="BACKEND: the model raised an error. REJECTED: requests waited longer than the queue lets them. "
            "CANCELED: clients gave up waiting. OTHER: none of these. Requests that a full queue turns away are not "
            "counted by Triton and come on top.",
        ),
        alert(
            "TritonAutoscalerAtMax",
            f"max by (namespace, horizontalpodautoscaler) ({wanted} >= {most})\n"
            f"and on (namespace, horizontalpodautoscaler) ({most} > {fewest})",
            lasting="15m",
            severity="warning",
            summary="{{ $labels.horizontalpodautoscaler }} is at its {{ $value }} replicas",
            description="The autoscaler has wanted all the replicas that it may have for 15 minutes. "
            "If the load grows further, requests wait.",
        ),
    ]


def _gpu_memory(settings: Settings) -> list[Rule]:
    """Return the alert about GPU memory. Pods with a language model are excluded: it takes nearly all memory at startup."""
    fleets = [fleet for fleet in settings.each_fleet if not any(want.llm for want in fleet.stack.models.serving.values())]
    if not fleets:
        return []
    own = pods_of([fleet.release for fleet in fleets])
    used, total = (series(f"nv_gpu_memory_{kind}_bytes", own) for kind in ("used", "total"))
    return [
        alert(
            "TritonGpuMemoryHigh",
            f"max by (namespace, pod, gpu_uuid) ({used} / ({total} > 0)) > 0.95",
            lasting="10m",
            severity="warning",
            summary="The memory of GPU {{ $labels.gpu_uuid }} is {{ $value | humanizePercentage }} full",
            description="In {{ $labels.pod }} a larger batch or one more model instance may fail for want of GPU memory. "
            "On a shared GPU the figure is that of the whole card.",
        )
    ]


def _resources(settings: Settings) -> list[Rule]:
    own = _own_pods(settings)
    used = series("container_memory_working_set_bytes", own, container=TRITON_CONTAINER)
    limit = series("kube_pod_container_resource_limits", own, container=TRITON_CONTAINER, resource="memory")
    evicted = series("kube_pod_status_reason", own, reason="Evicted")
    return [
        *_gpu_memory(settings),
        alert(
            "TritonGpuIdle",
            f"max by (namespace, pod, gpu_uuid) (avg_over_time({series('nv_gpu_utilization')}[1h])) < {IDLE_SHARE}",
            lasting="6h",
            severity="warning",
            summary="GPU {{ $labels.gpu_uuid }} computes for {{ $value | humanizePercentage }} of the time",
            description="The GPU of {{ $labels.pod }} costs what a busy one costs. No user notices, and pods are scaled on "
            "requests, not on this figure.",
        ),
        alert(
            "TritonMemoryHigh",
            f"max by (namespace, pod) ({used})\n/ on (namespace, pod) max by (namespace, pod) ({limit})\n> 0.95",
            lasting="10m",
            severity="warning",
            summary="{{ $labels.pod }} uses {{ $value | humanizePercentage }} of its memory limit",
            description="At its limit the kernel kills the server, with every request that is in it. "
            "/dev/shm counts as memory of the pod.",
        ),
        alert(
            "TritonPodEvicted",
            f"max by (namespace, pod) ({evicted} == 1)\nunless on (namespace, pod) ({evicted} offset 1h == 1)",
            lasting="0m",
            severity="warning",
            summary="{{ $labels.pod }} was evicted",
            description="The kubelet removed the pod, mostly because its /tmp, its logs or its copies of the models outgrew "
            "their volume. Another pod takes its place. This alert ends by itself after an hour.",
        ),
    ]
