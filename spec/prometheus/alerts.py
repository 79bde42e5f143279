"""Alerts about Triton itself: its pods, its models, its queues.

An alert is quiet while a model has no traffic unless it says otherwise, and a rollout alone raises none: what a new pod
does until it has loaded its models is not a fault, and pods that differ while the Deployment replaces them are meant to.
"""

from __future__ import annotations

from spec.names import TRITON_CONTAINER, TRITON_DEPLOYMENT, TRITON_NAMESPACE
from spec.prometheus.rule import JOB, Group, Rule, alert, answering, duration, group, pods, series
from spec.prometheus.timing import timing
from spec.settings.model import Settings

QUEUE_TIME_MS = 50
"""Mean time in the queue that is too long for a model of which the stack gives no SLO."""
QUEUE_SHARE_OF_SLO = 0.5
"""Of a model with an SLO, the mean request may spend so much of its p95 in the queue."""
_DOWN_SECONDS = 120
_STUCK_SECONDS = 180

_UP = series("up", job=JOB)
_PENDING = series("nv_inference_pending_request_count")
_READY = pods("kube_pod_status_ready", condition="true")
_UPDATED = series("kube_deployment_status_replicas_updated", deployment=TRITON_DEPLOYMENT)
_REPLICAS = series("kube_deployment_status_replicas", deployment=TRITON_DEPLOYMENT)

ROLLING = f"(max by (namespace) ({_UPDATED} != {_REPLICAS}))"
"""True while pods of an older template are left. One that never ends is the alert TritonRolloutStuck."""


def alert_group(settings: Settings) -> Group:
    """The alerts about Triton in a stack."""
    return group(
        "triton.alerts",
        [*_pods(settings), *_models(settings), *_queue_times(settings), *_load(settings), *_resources()],
    )


def _pods(settings: Settings) -> list[Rule]:
    start = timing(settings).start
    running = pods("kube_pod_status_phase", phase="Running")
    exit_code = pods("kube_pod_container_status_last_terminated_exitcode", container=TRITON_CONTAINER)
    restarts = pods("kube_pod_container_status_restarts_total", container=TRITON_CONTAINER)
    progressing = series(
        "kube_deployment_status_condition", deployment=TRITON_DEPLOYMENT, condition="Progressing", status="false"
    )
    return [
        *_down(settings, start),
        alert(
            "TritonTargetDown",
            # Without kube-state-metrics nothing is known to load, and a start raises this alert too.
            f"(max by (namespace, pod) ({_UP}) == 0)\nunless on (namespace, pod) ({_READY} == 0)",
            lasting="3m",
            severity="warning",
            summary="Triton's metrics of {{ $labels.pod }} cannot be read",
            description="The pod is ready, so it serves, but Prometheus has not reached its port 8002 for 3 minutes. "
            "Nothing that happens in this pod raises an alert until it does.",
        ),
        alert(
            "TritonPodNotReady",
            f"max by (namespace, pod) ({running} == 1)\nand on (namespace, pod) ({_READY} == 0)",
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


def _down(settings: Settings, start: int) -> list[Rule]:
    if settings.models.release is None:
        return []  # the platform without Triton
    # The pod of a fleet of one is away during each rollout, for as long as a start takes.
    lasting = duration(_DOWN_SECONDS if settings.fewest_pods > 1 else start + _DOWN_SECONDS)
    return [
        alert(
            "TritonDown",
            f"absent({answering(settings)})",
            lasting=lasting,
            severity="critical",
            labels={"namespace": TRITON_NAMESPACE},
            summary="No Triton pod answers",
            description=f"For {lasting} not one Triton pod has been reachable. Every inference request fails.",
        )
    ]


def _models(settings: Settings) -> list[Rule]:
    pods_that_answer = f"count by (namespace) ({answering(settings)})"
    serving = f"count by (namespace, model) (group by (namespace, pod, model) ({_PENDING}))"
    version = f"count by (namespace, model, version) (group by (namespace, pod, model, version) ({_PENDING}))"
    release = settings.models.release
    return [
        alert(
            "TritonModelVersionSkew",
            f"({version}\n< on (namespace, model) group_left () {serving})\nunless on (namespace) {ROLLING}",
            lasting="30m",
            severity="warning",
            summary="Only some pods serve version {{ $labels.version }} of {{ $labels.model }}",
            description="{{ $value }} of the pods that serve {{ $labels.model }} have its version {{ $labels.version }}, "
            "the others do not, and no rolling update is going on. What a client gets depends on the pod that answers.",
        ),
        alert(
            "TritonModelNotServed",
            f"{serving}\n< on (namespace) group_left () {pods_that_answer}",
            lasting="10m",
            severity="warning",
            summary="{{ $labels.model }} is missing on some pods",
            description="Only {{ $value }} of the pods that answer have {{ $labels.model }} loaded. "
            "Requests for it that reach another pod fail.",
        ),
        *(_not_served_at_all(model, pods_that_answer) for model in sorted(release.models if release is not None else ())),
    ]


def _not_served_at_all(model: str, answering: str) -> Rule:
    served = series("nv_inference_pending_request_count", model=model)
    return alert(
        "TritonModelNotServed",
        f"{answering}\nunless on (namespace) {served}",
        lasting="10m",
        severity="critical",
        labels={"model": model},
        summary=f"No pod serves {model}",
        description=f"{{{{ $value }}}} pods answer and none of them has {model} loaded, which is in the release of this "
        "stack. Every request for it fails.",
    )


def _queue_times(settings: Settings) -> list[Rule]:
    """One rule for each model with an SLO, and one for all the others."""
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
    # Ten times the longest execution and more: a pod that is at work must not look stuck.
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
            # By more than one request a minute: a full queue that sways does not grow.
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


def _resources() -> list[Rule]:
    gpu_used, gpu_total = series("nv_gpu_memory_used_bytes"), series("nv_gpu_memory_total_bytes")
    used = pods("container_memory_working_set_bytes", container=TRITON_CONTAINER)
    limit = pods("kube_pod_container_resource_limits", container=TRITON_CONTAINER, resource="memory")
    evicted = pods("kube_pod_status_reason", reason="Evicted")
    return [
        alert(
            "TritonGpuMemoryHigh",
            f"max by (namespace, pod, gpu_uuid) ({gpu_used} / ({gpu_total} > 0)) > 0.95",
            lasting="10m",
            severity="warning",
            summary="The memory of GPU {{ $labels.gpu_uuid }} is {{ $value | humanizePercentage }} full",
            description="In {{ $labels.pod }} a larger batch or one more model instance may fail for want of GPU memory. "
            "On a shared GPU the figure is that of the whole card.",
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
