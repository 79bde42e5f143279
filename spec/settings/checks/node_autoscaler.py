"""What a node autoscaler can do with the pools."""

from collections.abc import Iterator

from spec.settings.checks.subject import Check, PoolCheck, PoolSubject, Subject
from spec.settings.problem import Problem


def _karpenter_is_not_on_one_node(subject: Subject) -> Iterator[Problem]:
    nodes = subject.document.nodes
    if subject.document.node_autoscaler == "karpenter" and nodes.system.min < 2:
        yield Problem(
            "nodes.system.min",
            f"{nodes.system.min} node cannot hold both of Karpenter's pods, which refuse to share one; use at least 2",
        )


def _is_karpenters(subject: PoolSubject) -> bool:
    return subject.document.node_autoscaler == "karpenter"


def _karpenter_keeps_no_empty_nodes(subject: PoolSubject) -> Iterator[Problem]:
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


def _karpenter_knows_whole_gpus(subject: PoolSubject) -> Iterator[Problem]:
    """What a node of an instance type will advertise it takes from EC2; NodeOverlay, which could add to it, is alpha."""
    if _is_karpenters(subject) and subject.pool.sharing.strategy != "exclusive":
        yield Problem(
            f"{subject.path}.sharing",
            "Karpenter does not know that a new node will offer shares of its GPUs, and starts none for pods that want one; "
            "use exclusive, or nodes.autoscaler: cluster-autoscaler",
        )


def _karpenter_makes_no_efa_groups(subject: PoolSubject) -> Iterator[Problem]:
    if _is_karpenters(subject) and subject.pool.efa:
        yield Problem(
            f"{subject.path}.efa",
            "Karpenter gives EFA interfaces to nodes whose pods ask for them, and this platform's do not; "
            "use false, or nodes.autoscaler: cluster-autoscaler",
        )


CHECKS: tuple[Check, ...] = (_karpenter_is_not_on_one_node,)
POOL_CHECKS: tuple[PoolCheck, ...] = (
    _karpenter_keeps_no_empty_nodes,
    _karpenter_knows_whole_gpus,
    _karpenter_makes_no_efa_groups,
)
