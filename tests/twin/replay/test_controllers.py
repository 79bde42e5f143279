"""A controller's decisions from its pods' numbers, some of them missing."""

from spec.scaling.manifests import autoscaler_spec
from spec.scaling.signal import signals
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import HPA, scaling
from twin.replay.capacity import Cluster, Pod, Pool, Starts
from twin.replay.controllers import Hpa, Seen

STACK = settings({**HPA, "gpu.pools[0].desired": 8, "gpu.pools[0].max": 8, "autoscaling": scaling(maxReplicas=8)})


def wanted_of_four(pending: int) -> int:
    """Return the decision for two idle pods, and two that serve no requests yet."""
    controller = Hpa(autoscaler_spec(STACK), signals(STACK))
    seen = Seen({signal.name: [signal.target / 4] * 2 for signal in signals(STACK)}, {}, 4, pending)
    # The first look takes the current number as the wanted one; it is forgotten after the window.
    controller.decide(0, 0, seen)
    return controller.decide(100_000, 100_000, seen)


def test_a_pod_that_loads_its_models_counts_as_full_and_one_without_a_node_is_not_looked_at() -> None:
    # (1/4 + 1/4 + 1 + 1) targets are 2.5 pods' work; without the two, half a pod's. At most half of the pods are removed at
    # once.
    assert wanted_of_four(pending=0) == 3
    assert wanted_of_four(pending=2) == 2


def test_a_pod_is_pending_until_its_node_is_there_and_not_ready_until_it_has_loaded() -> None:
    cluster = Cluster(Pool(1, 1, 0, False, 0, 1, None), Starts(node=240, pod=60))
    placed, waiting = Pod([], 0), Pod([], 0)
    cluster.add(placed, 0)
    cluster.add(waiting, 0)
    assert [placed.is_pending(now) for now in (0, 239, 240, 299)] == [True, True, False, False]
    assert [placed.is_ready(now) for now in (240, 299, 300)] == [False, False, True]
    assert waiting.is_pending(1000)
