"""Pods and nodes: their waits, and the paid time."""

import yaml

from infra.platform import karpenter_pools
from tests.paths import ROOT
from twin.replay.capacity import KEEP_EMPTY_SECONDS, Cluster, Pod, Pool, Starts


def cluster(*, pods: int = 2, warm: int = 0, fixed: bool = False, per_node: int = 1, most: int = 4) -> Cluster:
    pool = Pool(per_node, most, 0, fixed, warm, gpus_per_node=1, usd_per_hour=1.0)
    made = Cluster(pool, Starts(node=240, pod=60))
    made.begin([Pod([], 0) for _ in range(pods)], now=0)
    return made


def added(to: Cluster, now: float) -> Pod:
    pod = Pod([], 0)
    to.add(pod, now)
    to.settle(now)
    return pod


def test_a_pod_waits_for_a_node_and_the_next_one_on_it_does_not() -> None:
    made = cluster(per_node=2)
    assert (len(made.nodes), [pod.ready_at for pod in made.pods]) == (1, [0, 0])
    assert added(made, 100).ready_at == 100 + 240 + 60
    assert added(made, 110).ready_at == 100 + 240 + 60, "it shares the node that is coming"
    assert len(made.nodes) == 2


def test_a_warm_pod_gives_way_and_gets_a_node_of_its_own() -> None:
    made = cluster(warm=1)
    assert len(made.nodes) == 3
    assert added(made, 100).ready_at == 160
    assert [node.warm for node in made.nodes] == [0, 0, 0, 1]


def test_beyond_the_pool_pods_wait_for_room() -> None:
    made = cluster(fixed=True, most=2)
    waiting = added(made, 100)
    assert waiting.ready_at is None and len(made.nodes) == 2
    made.remove(made.pods[0])
    made.settle(200)
    assert waiting.ready_at == 260


def test_an_empty_node_is_kept_for_a_while_and_they_go_one_by_one() -> None:
    made = cluster(pods=3)
    for _ in range(2):
        made.remove(made.last(1000))
    counts = {}
    for now in range(1000, 3000, 15):
        made.settle(now)
        counts[now] = len(made.nodes)
    gone = [now for now in counts if counts[now] < counts.get(now - 15, 3)]
    assert gone == [1000 + 900, 1000 + 900 + 60]
    assert len(made.nodes) == 1


def test_what_is_not_ready_goes_first_and_then_the_newest() -> None:
    made = cluster()
    newest = added(made, 100)
    assert made.last(200) is newest and made.last(500) is newest
    pending = [added(made, 600) for _ in range(2)][-1]
    assert pending.node is None
    assert made.last(700) is pending


def test_nodes_are_kept_as_long_as_the_program_says() -> None:
    assert f"{KEEP_EMPTY_SECONDS // 60}m" == karpenter_pools.KEEP_EMPTY
    values = yaml.safe_load((ROOT / "helm-values/cluster-autoscaler/base.yaml").read_text())
    assert values["extraArgs"]["scale-down-unneeded-time"] == f"{KEEP_EMPTY_SECONDS // 60}m"
