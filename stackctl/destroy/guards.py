"""Check the conditions that must hold before anything is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spec.settings import Settings
from spec.stack_names import stack_file
from spec.versions import PROJECT
from stackctl.account.read_only import Readers, or_none
from stackctl.destroy.state import Resource


def objections(settings: Settings, readers: Readers, resources: Sequence[Resource]) -> list[str]:
    """Return the reasons against deleting the stack, each with a remedy.

    Empty: the stack may be deleted.
    """
    stack = settings.stack
    if settings.protected:
        return [
            f"{stack} is protected: write triton-eks:allowDestroy: true in {stack_file(stack)}, have that reviewed, and "
            f"run `pulumi up --stack {stack}`"
        ]
    return [
        *_of_another_stack(stack, resources),
        *_protected_by_the_state(stack, resources),
        *_protected_by_eks(settings, readers),
    ]


def _of_another_stack(stack: str, resources: Sequence[Resource]) -> Iterator[str]:
    """Refuse a state with resources of another stack.

    `pulumi destroy` deletes everything in the state, also imported resources.
    """
    own = f"urn:pulumi:{stack}::{PROJECT}::"
    others = sorted(resource.urn for resource in resources if not resource.urn.startswith(own))
    if others:
        yield (
            f"the state of {stack} has {len(others)} resources of another stack or project (first: {others[0]}): it was "
            "imported or renamed; put it right (`pulumi stack rename`, `pulumi state delete`) before anything is deleted"
        )


def _protected_by_the_state(stack: str, resources: Sequence[Resource]) -> Iterator[str]:
    """Refuse while the state protects resources.

    The engine uses the protection that the last `up` wrote, not the stack file.
    """
    names = sorted(resource.name for resource in resources if resource.protected)
    if names:
        yield (
            f"the last `up` has protected {', '.join(names)}: run `pulumi up --stack {stack}`, which lifts that, as "
            f"{stack_file(stack)} allows it now"
        )


def _protected_by_eks(settings: Settings, readers: Readers) -> Iterator[str]:
    name = settings.cluster_name
    answer = or_none(lambda: readers("eks").describe_cluster(name=name), "ResourceNotFoundException")
    if answer is not None and answer["cluster"].get("deletionProtection"):
        yield (
            f"EKS protects {settings.cluster_name} against deletion: run `pulumi up --stack {settings.stack}` with "
            "cluster.deletionProtection: false or allowDestroy: true"
        )
