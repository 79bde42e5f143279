"""Check claims about Triton: its pods, its models, its first response."""

from __future__ import annotations

from spec.names import TRITON_NAMESPACE
from stackctl.certify.checks.nodes import condition
from stackctl.certify.outcome import Outcome, agree, differ, judged, not_tried
from stackctl.certify.subject import FIRST_INFERENCE, Subject

_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TRITON_NAMESPACE}/deployments"
_PODS = f"/api/v1/namespaces/{TRITON_NAMESPACE}/pods"
_BUDGETS = f"/apis/policy/v1/namespaces/{TRITON_NAMESPACE}/poddisruptionbudgets"
_CLAIMS = f"/api/v1/namespaces/{TRITON_NAMESPACE}/persistentvolumeclaims"


def triton_is_ready(subject: Subject) -> Outcome:
    """Check that all desired pods of each fleet are ready and no container restarted."""
    deployments = {found["metadata"]["name"]: found for found in subject.objects(_DEPLOYMENTS)}
    seen = []
    for fleet in subject.settings.each_fleet:
        deployment = deployments.get(fleet.release)
        if deployment is None:
            return differ(f"there is no Deployment {fleet.release} in {TRITON_NAMESPACE}")
        wanted, ready = deployment["spec"].get("replicas", 1), deployment.get("status", {}).get("readyReplicas", 0)
        of = "" if fleet.name is None else f" of {fleet.release}"
        seen.append((ready == wanted > 0, f"{ready} of {wanted} pods{of} are ready"))
    for pod in subject.objects(_PODS):
        name = pod["metadata"]["name"]
        for container in pod.get("status", {}).get("containerStatuses") or []:
            restarts = container.get("restartCount", 0)
            if restarts:
                seen.append((False, f"container {container['name']} of {name} was restarted {restarts} times"))
            else:
                seen.append((True, f"{name} runs {container.get('imageID') or container.get('image')}"))
    return judged(seen, not_tried("there is no pod"))


def first_inference(subject: Subject) -> Outcome:
    """Check that models were released, loaded by Triton, and gave an answer."""
    if FIRST_INFERENCE in subject.trouble:
        return differ(subject.trouble[FIRST_INFERENCE])
    return agree(subject.answer) if subject.answer else not_tried("no inference was made")


def models_are_mounted(subject: Subject) -> Outcome:
    """Check that the volume of the models is bound, if the stack mounts one."""
    if subject.settings.models.access in {"s3", "local"}:
        return not_tried("the stack's pods read models from S3 and mount none")
    found = [(claim["metadata"]["name"], claim.get("status", {}).get("phase")) for claim in subject.objects(_CLAIMS)]
    seen = [(phase == "Bound", f"claim {name} is {phase}") for name, phase in found]
    return judged(seen, not_tried("there is no claim of a volume"))


def disruption_budget(subject: Subject) -> Outcome:
    """Check that the disruption controller counts Triton's pods. NetworkPolicies are not tested."""
    seen = []
    for budget in subject.objects(_BUDGETS):
        allowed = condition(budget, "DisruptionAllowed")
        pods = budget.get("status", {}).get("expectedPods", 0)
        line = f"PodDisruptionBudget {budget['metadata']['name']} counts {pods} pods; DisruptionAllowed is {allowed}"
        seen.append((pods > 0, line))
    return judged(seen, not_tried("the stack has no disruption budget"))
