"""Nodes that Karpenter starts and terminates, counted by its NodeClaims."""

from typing import Any

from twin.load.counts import Counts, count


def claim(*conditions: tuple[str, str], ending: bool = False) -> dict[str, Any]:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
    said = [{"type": kind, "status": status} for kind, status in conditions]
    return {"metadata": metadata, "status": {"conditions": said}}


def test_a_node_is_ready_starting_or_ending() -> None:
    launched = claim(("Launched", "True"), ("Ready", "Unknown"))
    ready = claim(("Launched", "True"), ("Ready", "True"))
    ended = claim(("Ready", "True"), ending=True)
    assert count([ready, launched, {"metadata": {}}, ready, ended]) == Counts(ready=2, starting=2, ending=1)
