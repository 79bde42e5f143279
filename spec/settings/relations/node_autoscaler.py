"""The autoscaler of nodes, system nodes and pools."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import PoolSubject, Subject, of_each_pool
from spec.settings.rule import rule


@rule
def _karpenter_is_not_on_one_node(subject: Subject) -> Iterator[Problem]:
    """Require two system nodes for Karpenter's pods, which refuse to share one."""
    nodes = subject.document.nodes
    if subject.document.node_autoscaler == "karpenter" and nodes.system.min < 2:
        yield Problem(
            "nodes.system.min",
            f"{nodes.system.min} node cannot hold both of Karpenter's pods, which refuse to share one; use at least 2",
        )


def _is_karpenters(subject: PoolSubject) -> bool:
    return subject.document.node_autoscaler == "karpenter"


@rule
@of_each_pool
def _karpenter_keeps_no_empty_nodes(subject: PoolSubject) -> Iterator[Problem]:
    """Require min and desired 0 of pools with Karpenter, which starts nodes for pods only."""
    if not _is_karpenters(subject):
        return
    for key, value in (("min", subject.pool.min), ("desired", subject.pool.desired)):
        if value:
            yield Problem(
                f"{subject.path}.{key}",
                f"Karpenter starts nodes for pods and keeps none without; use 0 instead of {value}, "
                "and autoscaling.warmPods for nodes that wait; "
                "or nodes.autoscaler: cluster-autoscaler or none, for node groups",
            )


@rule
@of_each_pool
def _karpenter_knows_whole_gpus(subject: PoolSubject) -> Iterator[Problem]:
    """Refuse shared GPUs with Karpenter, which takes from EC2 what a node will offer.

    NodeOverlay, which could add to it, is alpha.
    """
    if _is_karpenters(subject) and subject.pool.sharing.strategy != "exclusive":
        yield Problem(
            f"{subject.path}.sharing",
            "Karpenter does not know that a new node will offer shares of its GPUs, and starts none for pods that want one; "
            "use exclusive, or nodes.autoscaler: cluster-autoscaler",
        )
