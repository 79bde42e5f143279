"""The one or two Deployments of `triton.rollout: blue-green`, represented as fleets.

A release serves from one slot (`models.slot`), and a candidate, if any, from the other. Every rule about a fleet applies to
each slot as if the stack file pinned only its release.
"""

from typing import Any, TypeVar, get_args

from spec.names import TRITON_RELEASE
from spec.settings.autoscaling import Autoscaling
from spec.settings.fleets import Fleet
from spec.settings.models import Candidate, Models, Slot
from spec.settings.section import Section

SLOTS: tuple[Slot, ...] = get_args(Slot)

S = TypeVar("S", bound=Section)


def other_slot(slot: Slot) -> Slot:
    """Return the slot of the candidate if the release has `slot`."""
    return "green" if slot == "blue" else "blue"


def helm_release(slot: Slot) -> str:
    """Return the Helm release of a slot. Its Deployment and Services have the same name."""
    return f"{TRITON_RELEASE}-{slot}"


def is_blue_green(document: Section) -> bool:
    """Return whether a stack has one Deployment per slot. The document may lack values."""
    triton = document.__dict__.get("triton")
    return triton is not None and triton.__dict__.get("rollout") == "blue-green"


def slots(document: S) -> tuple[Fleet[S], ...]:
    """Return the fleet of the release and, if there is a candidate, the candidate's fleet."""
    models: Models | None = document.__dict__.get("models")
    slot: Slot = models.__dict__.get("slot", "blue") if models is not None else "blue"
    candidate: Candidate | None = models.__dict__.get("candidate") if models is not None else None
    if models is None or candidate is None or not {"release", "percent", "pods"} <= candidate.__dict__.keys():
        return (Fleet(document, slot),)
    percent = candidate.percent
    return (
        Fleet(
            _view(document, models, models.__dict__.get("release"), candidate.pods),
            slot,
            percent=100 - percent,
            file=document,
        ),
        Fleet(
            _view(document, models, candidate.release, candidate.pods),
            other_slot(slot),
            percent=percent,
            candidate=True,
            file=document,
        ),
    )


def _view(document: S, models: Models, release: Any, pods: int | None) -> S:
    """Return the stack file as if `release` were its only one, with at least `pods` pods."""
    view = document.model_copy()
    view.__dict__["models"] = models.with_release(release).model_copy(update={"candidate": None})
    bounds = document.__dict__.get("autoscaling")
    if pods is not None and isinstance(bounds, Autoscaling) and {"min_replicas", "max_replicas"} <= bounds.__dict__.keys():
        fewest = max(bounds.min_replicas, min(pods, bounds.max_replicas))
        view.__dict__["autoscaling"] = bounds.model_copy(update={"min_replicas": fewest})
    return view
