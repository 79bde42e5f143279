"""Check claims about platform services: monitoring, autoscaling, the gateway."""

from __future__ import annotations

from spec.names import GATEWAY_NAMESPACE, MONITORING_NAMESPACE, TRITON_NAMESPACE
from stackctl.certify.checks.nodes import condition
from stackctl.certify.outcome import Outcome, differ, judged, not_tried
from stackctl.certify.subject import Subject

_MONITORING = f"/apis/apps/v1/namespaces/{MONITORING_NAMESPACE}/statefulsets"
_PODS = f"/api/v1/namespaces/{MONITORING_NAMESPACE}/pods"
_EXPORTER, _EXPORTER_PORT = "dcgm-exporter", 9400
_PROFILING = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_AUTOSCALERS = f"/apis/autoscaling/v2/namespaces/{TRITON_NAMESPACE}/horizontalpodautoscalers"
_GATEWAYS = "/apis/gateway.networking.k8s.io/v1/gateways"
_SERVICES = f"/api/v1/namespaces/{GATEWAY_NAMESPACE}/services"


def monitoring_runs(subject: Subject) -> Outcome:
    """Check that the operator has created Prometheus and Alertmanager, and that they are ready."""
    if subject.settings.monitoring is None:
        return not_tried("the stack has no monitoring")
    seen = []
    for found in subject.objects(_MONITORING):
        wanted, ready = found["spec"].get("replicas", 1), found.get("status", {}).get("readyReplicas", 0)
        seen.append((ready == wanted, f"{found['metadata']['name']}: {ready} of {wanted} pods are ready"))
    return judged(seen, differ("the operator has made no Prometheus"))


def profiling_counters(subject: Subject) -> Outcome:
    """Check that each exporter has the GPUs' profiling counters.

    EKS's node monitoring agent reads the same GPUs.
    """
    pods = [
        pod["metadata"]["name"]
        for pod in subject.objects(_PODS)
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") == _EXPORTER
    ]
    seen = []
    for name in pods:
        lines = subject.text(f"{_PODS}/{name}:{_EXPORTER_PORT}/proxy/metrics").splitlines()
        series = sum(line.startswith(f"{_PROFILING}{{") for line in lines)
        seen.append((series > 0, f"{name} exports {series} series of {_PROFILING}"))
    return judged(seen, not_tried("no exporter of GPU metrics runs"))


def one_autoscaler_owns_the_pods(subject: Subject) -> Outcome:
    """Check that each scaled fleet has exactly one autoscaler, with readable metrics."""
    scaled = [fleet.release for fleet in subject.settings.each_fleet if fleet.stack.pod_autoscaler != "none"]
    if not scaled:
        return not_tried("the stack's pods are not scaled")
    autoscalers, seen = subject.objects(_AUTOSCALERS), []
    for name in scaled:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        own = [found for found in autoscalers if found["spec"].get("scaleTargetRef") == target]
        if not own:
            return differ(f"no autoscaler has the Deployment {name} as its target")
        active = len(own) == 1 and condition(own[0], "ScalingActive") == "True"
        said = [f"{found['metadata']['name']}: ScalingActive is {condition(found, 'ScalingActive')}" for found in own]
        seen += [(active, line) for line in said]
    return judged(seen, not_tried("the stack's pods are not scaled"))


def gateway(subject: Subject) -> Outcome:
    """Check that the gateway is programmed and has an address.

    Requests through it need a client inside the VPC.
    """
    if subject.settings.gateway is None:
        return not_tried("the stack has no gateway")
    seen = []
    for found in subject.objects(_GATEWAYS):
        programmed = condition(found, "Programmed")
        addresses = ", ".join(one.get("value", "?") for one in found.get("status", {}).get("addresses") or [])
        line = f"gateway {found['metadata']['name']}: Programmed is {programmed}, its address is {addresses or 'missing'}"
        seen.append((programmed == "True" and bool(addresses), line))
    return judged(seen, differ("there is no gateway"))


def load_balancer(subject: Subject) -> Outcome:
    """Check that each Service of type LoadBalancer has a load balancer.

    The AWS Load Balancer Controller creates it.
    """
    if subject.settings.gateway is None:
        return not_tried("the stack has no gateway, and so no load balancer")
    seen = []
    for service in subject.objects(_SERVICES):
        if service["spec"].get("type") == "LoadBalancer":
            made = [
                one.get("hostname") or one.get("ip")
                for one in service["status"].get("loadBalancer", {}).get("ingress") or []
            ]
            name = service["metadata"]["name"]
            seen.append((bool(made), f"Service {name}: {made[0] if made else 'no load balancer'}"))
    return judged(seen, differ("no Service asks for a load balancer"))
