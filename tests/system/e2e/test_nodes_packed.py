"""Nodes that hold several pods of Triton: the real Karpenter fills them, and consolidates half-empty ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.system.e2e import pinned
from tests.system.e2e.karpenter_nodes import TRITON, Nodes, karpenter_twin
from twin.host.home import TwinHome

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)


def test_four_pods_share_a_node_of_four_gpus_and_two_half_empty_nodes_are_joined(tmp_path: Path) -> None:
    with karpenter_twin(TwinHome(tmp_path / "home"), pins=pinned.PACKED) as packed:
        assert len(set(placed(packed, 4).values())) == 1
        (first,) = packed.launched("g5").values()
        assert first["InstanceType"] == "g5.12xlarge"

        scale(packed, 6)
        assert sorted(Counter(placed(packed, 6).values()).values()) == [2, 4]
        scale(packed, 5)
        assert sorted(Counter(placed(packed, 5).values()).values()) == [2, 3], "a pod goes from the fullest node"
        scale(packed, 4)
        fewest = 4

        def joined() -> bool:
            nonlocal fewest
            ready = packed.tritons()
            fewest = min(fewest, len(ready))
            return len(ready) == 4 and len(set(ready.values())) == len(packed.instances("g5")) == 1

        packed.until(joined, "four pods on one node, and the other node to be ended")
        assert fewest >= 3, "the disruption budget allows one pod at a time"
        assert packed.calls()["refused"] == {}


def scale(packed: Nodes, pods: int) -> None:
    packed.merge(TRITON, {"spec": {"replicas": pods}})


def placed(packed: Nodes, pods: int) -> dict[str, str]:
    """Wait until exactly this number of Triton pods is ready, and return their nodes by pod."""
    return packed.until(
        lambda: ready if len(ready := packed.tritons()) == pods else None, f"{pods} pods of Triton to be ready"
    )
