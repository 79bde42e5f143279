"""Claims about what runs in the cluster for the workloads' sake: monitoring, autoscaling, the gateway."""

from __future__ import annotations

from spec.names import GATEWAY_NAMESPACE, MONITORING_NAMESPACE, TRITON_DEPLOYMENT, TRITON_NAMESPACE
from stackctl.certify.checks.nodes import condition
from stackctl.certify.outcome import Outcome, judged, not_tried
from stackctl.certify.subject import Subject

_MONITORING = f"/apis/apps/v1/namespaces/{MONITORING_NAMESPACE}/statefulsets"
_AUTOSCALERS = f"/apis/autoscaling/v2/namespaces/{TRITON_NAMESPACE}/horizontalpodautoscalers"
_GATEWAYS = "/apis/gateway.networking.k8s.io/v1/gateways"
_SERVICES = f"/api/v1/namespaces/{GATEWAY_NAMESPACE}/services"


def monitoring_runs(subject: Subject) -> Outcome:
    """Look whether the operator has made Prometheus and Alertmanager, and whether they are ready."""
    if subject.settings.monitoring is None:
        return not_tried("the stack has no monitoring")
    right: list[str] = []
    wrong: list[str] = []
    for found in subject.objects(_MONITORING):
        wanted, ready = found["spec"].get("replicas", 1), found.get("status", {}).get("readyReplicas", 0)
        (right if ready == wanted else wrong).append(f"{found['metadata']['name']}: {ready} of {wanted} pods are ready")
    return judged(right, wrong or ([] if right else ["the operator has made no Prometheus"]), "")


def one_autoscaler_owns_the_pods(subject: Subject) -> Outcome:
    """Look whether exactly one autoscaler counts Triton's pods, and whether it can read what it scales on."""
    if subject.settings.pod_autoscaler == "none":
        return not_tried("the stack's pods are not scaled")
    own = [
        found
        for found in subject.objects(_AUTOSCALERS)
        if found["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": TRITON_DEPLOYMENT}
    ]
    lines = [f"{found['metadata']['name']}: ScalingActive is {condition(found, 'ScalingActive')}" for found in own]
    active = len(own) == 1 and condition(own[0], "ScalingActive") == "True"
    wrong = lines or ["no autoscaler has Triton's Deployment as its target"]
    return judged(lines if active else [], [] if active else wrong, "")


def gateway(subject: Subject) -> Outcome:
    """Look whether the gateway is programmed and has an address. Requests through it need a client inside the VPC."""
    if subject.settings.gateway is None:
        return not_tried("the stack has no gateway")
    right: list[str] = []
    wrong: list[str] = []
    for found in subject.objects(_GATEWAYS):
        programmed = condition(found, "Programmed")
        addresses = ", ".join(one["value"] for one in found.get("status", {}).get("addresses") or [])
        line = f"gateway {found['metadata']['name']}: Programmed is {programmed}, its address is {addresses or 'missing'}"
        (right if programmed == "True" and addresses else wrong).append(line)
    return judged(right, wrong or ([] if right else ["there is no gateway"]), "")


def load_balancer(subject: Subject) -> Outcome:
    """Look whether the controller has given each Service of type LoadBalancer a load balancer."""
    if subject.settings.gateway is None:
        return not_tried("the stack has no gateway, and so no load balancer")
    right: list[str] = []
    wrong: list[str] = []
    for service in subject.objects(_SERVICES):
        if service["spec"].get("type") == "LoadBalancer":
            made = [
                one.get("hostname") or one.get("ip")
                for one in service["status"].get("loadBalancer", {}).get("ingress") or []
            ]
            name = service["metadata"]["name"]
            (right if made else wrong).append(f"Service {name}: {made[0] if made else 'no load balancer'}")
    return judged(right, wrong or ([] if right else ["no Service asks for a load balancer"]), "")
