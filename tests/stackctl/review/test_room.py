"""Old and new Triton pods on the same nodes: an update that waits for a node is reported with a remedy."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from spec.settings import Settings
from spec.settings.digest import digest_of
from stackctl.review import collect, sections
from stackctl.review.collect import waits_for_nodes
from stackctl.review.plan import Plan
from tests.spec.stack_config import REMOVED, settings
from tests.spec.test_blue_green import BLUE_GREEN
from tests.spec.test_fleets import CPU_MODEL, GPU_MODEL, POOLS, released

FLEETS: list[dict[str, Any]] = [
    {"name": "a", "models": ["tokenize"], "replicas": 1},
    {"name": "b", "models": ["embed"], "replicas": 1},
]
BOUNDS = {"minReplicas": 2, "maxReplicas": 4}
WANTS = {"tokenize": CPU_MODEL, "embed": GPU_MODEL}
RELEASE = {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"embed": 1, "tokenize": 1}}
# Of A10G.
MADE_FOR_WANTS = digest_of(settings({"models.release": REMOVED, "models.serving": WANTS}).models, (8.6,))
SCALED = {
    "triton.replicas": REMOVED,
    "autoscaling": BOUNDS,
    "models.serving": WANTS,
    "models.release": {**RELEASE, "serving": MADE_FOR_WANTS},
    "monitoring": {"runbooks": "https://wiki.example.com/triton", "replicas": 1, "retentionDays": 15, "storageGiB": 50},
}


def stack(changes: dict[str, Any]) -> Settings:
    """Return a stack with at most four one-GPU Karpenter nodes, and a release of two models."""
    common = {
        **POOLS,
        "models.release": RELEASE,
        "nodes.autoscaler": "karpenter",
        "nodes.system.instanceTypes": ["m7i.2xlarge"],
    }
    return settings({**common, **changes})


def told(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return list(waits_for_nodes(stack(now), stack(then)))


TO_FLEETS = {"triton.replicas": REMOVED, "fleets": FLEETS}


def test_a_first_move_to_fleets_waits_while_the_old_pods_keep_the_nodes() -> None:
    assert told({"triton.replicas": 3}, TO_FLEETS) == [
        "gpu.pools (g5): `pulumi up` starts 1 pod of triton-a and 1 pod of triton-b before it ends 3 pods of triton, and 4 "
        "nodes do not hold both: it waits for nodes as long as triton has more than 2 pods; give max 5 for this update, and "
        "4 again after it (docs/fleets.md)"
    ]
    assert told({"triton.replicas": 2}, TO_FLEETS) == []


def test_of_pods_that_are_scaled_as_many_are_counted_as_there_may_be() -> None:
    (said,) = told(SCALED, TO_FLEETS)
    assert "before it ends 2 to 4 pods of triton, and 4 nodes do not hold both" in said
    assert "as long as triton has more than 2 pods; give max 6 for this update" in said


def test_new_pods_that_fill_all_nodes_wait_for_any_old_one() -> None:
    four = [{**one, "replicas": 2} for one in FLEETS]
    (said,) = told({"triton.replicas": 1}, {**TO_FLEETS, "fleets": four})
    assert "before it ends 1 pod of triton, and 4 nodes" in said
    assert "as long as triton has any pod; give max 5 for this update" in said


def test_nodes_that_nothing_starts_are_those_that_are_desired() -> None:
    fixed = {"nodes.autoscaler": "none", "gpu.pools[0].min": 2, "gpu.pools[0].desired": 3, "gpu.pools[0].max": 9}
    (said,) = told({**fixed, "triton.replicas": 2}, {**fixed, **TO_FLEETS})
    assert "and 3 nodes do not hold both" in said
    assert "give desired 4 for this update, and 3 again after it" in said


def test_pods_of_old_and_new_may_share_a_node() -> None:
    large = {"gpu.pools[0].instanceTypes": ["g5.12xlarge"], "gpu.pools[0].max": 1}
    shared = [{**FLEETS[0], "models": ["tokenize", "embed"]}]
    assert told({**large, "triton.replicas": 3}, {**large, **TO_FLEETS, "fleets": shared}) == []
    (said,) = told({**large, "triton.replicas": 4}, {**large, **TO_FLEETS, "fleets": shared})
    assert "as long as triton has more than 3 pods; give max 2 for this update" in said


def test_a_fleet_that_takes_the_place_of_another_waits_beside_those_that_stay() -> None:
    renamed = [FLEETS[0], {**FLEETS[1], "name": "c"}]
    more = {"fleets[1].replicas": 2}
    (said,) = told({**TO_FLEETS, **more, "gpu.pools[0].max": 3}, {**TO_FLEETS, "fleets": renamed, "gpu.pools[0].max": 3})
    assert "starts 1 pod of triton-c before it ends 2 pods of triton-b, and 3 nodes do not hold both" in said
    assert "as long as triton-b has more than 1 pod; give max 4" in said


def test_what_runs_on_nodes_of_its_own_or_stays_waits_for_nothing() -> None:
    assert list(waits_for_nodes(released(), released())) == []
    moved = [{**FLEETS[0], "pool": "p4d", "models": ["tokenize", "embed"], "replicas": 1}]
    assert told({"triton.replicas": 4}, {**TO_FLEETS, "fleets": moved}) == []
    # From one Deployment to two by slot: a rule guarantees room for two releases.
    assert list(waits_for_nodes(settings(BLUE_GREEN), settings({"triton.replicas": 2}))) == []


def test_before_a_first_release_there_is_no_old_pod() -> None:
    bare = {"triton.replicas": 4, "models.release": REMOVED}
    assert told(bare, TO_FLEETS) == []


def test_the_comment_of_a_pull_request_warns_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "settings_of", lambda _: stack(TO_FLEETS))
    monkeypatch.setattr(collect, "settings_at", lambda *_: stack({"triton.replicas": 3}))
    found = collect.report("staging", Plan(()), "main", date(2026, 11, 21))
    text = "\n".join(item for section in sections.of(found) for item in section.items)
    assert "it waits for nodes as long as triton has more than 2 pods; give max 5 for this update" in text
