"""The node autoscaler, system nodes and pools."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.nodes import CPU_POOL_NAME
from spec.settings.relations.subject import PoolSubject, Subject, of_each_pool
from spec.settings.rule import rule
from spec.settings.scheduling.pods import fleets_without_gpus


@rule
def _karpenter_is_not_on_one_node(subject: Subject) -> Iterator[Problem]:
    """Require two system nodes with Karpenter, because its two pods do not share a node."""
    nodes = subject.document.nodes
    if subject.document.node_autoscaler == "karpenter" and nodes.system.min < 2:
        yield Problem(
            "nodes.system.min",
            f"{nodes.system.min} node cannot hold both of Karpenter's pods, which refuse to share one; use at least 2",
        )


@rule
def _karpenter_starts_no_system_nodes(subject: Subject) -> Iterator[Problem]:
    """Require nodes.system.max equal to desired with Karpenter, because only node groups start system nodes.

    EKS itself goes beyond max while it replaces nodes.
    """
    system = subject.document.nodes.system
    if subject.document.node_autoscaler == "karpenter" and system.max > system.desired:
        yield Problem(
            "nodes.system.max",
            f"nothing starts more than the {system.desired} system nodes of desired: Karpenter starts those of gpu.pools "
            f"and nodes.cpu alone; use {system.desired}, or raise desired",
        )


@rule
def _nodes_for_workers_have_both(subject: Subject) -> Iterator[Problem]:
    """Require Karpenter, and workers or a fleet without GPUs, with nodes.cpu."""
    document = subject.document
    if document.nodes.cpu is None:
        return
    if document.node_autoscaler != "karpenter":
        yield Problem(
            "nodes.cpu",
            f"Karpenter starts these nodes, and nodes.autoscaler is {document.node_autoscaler}; remove it, with enough "
            "nodes.system for the workers, or use nodes.autoscaler: karpenter",
        )
    if document.worker is None and not fleets_without_gpus(document):
        yield Problem(
            "nodes.cpu",
            "only workers and fleets without GPUs run on these nodes, and the stack has neither; remove it, or add worker",
        )


@rule
@of_each_pool
def _names_differ(subject: PoolSubject) -> Iterator[Problem]:
    """Refuse a GPU pool with the name of nodes.cpu, because pods could land on the wrong nodes."""
    if subject.document.nodes.cpu is not None and subject.pool.name == CPU_POOL_NAME:
        yield Problem(f"{subject.path}.name", f"'{CPU_POOL_NAME}' is the name of the nodes for workers; use another")


def _is_karpenters(subject: PoolSubject) -> bool:
    return subject.document.node_autoscaler == "karpenter"


@rule
@of_each_pool
def _karpenter_keeps_no_empty_nodes(subject: PoolSubject) -> Iterator[Problem]:
    """Require min and desired 0 for pools with Karpenter, which starts nodes only for pods."""
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
    """Refuse shared GPUs with Karpenter, because it takes a new node's resources from EC2's data.

    NodeOverlay could add them, but it is alpha.
    """
    if _is_karpenters(subject) and subject.pool.sharing.strategy != "exclusive":
        yield Problem(
            f"{subject.path}.sharing",
            "Karpenter does not know that a new node will offer shares of its GPUs, and starts none for pods that want one; "
            "use exclusive, or nodes.autoscaler: cluster-autoscaler",
        )
