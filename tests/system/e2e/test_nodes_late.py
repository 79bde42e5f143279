"""The real Karpenter, whose pod is admitted before its Pod Identity association takes effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.e2e.karpenter_nodes import karpenter_twin
from twin.host.home import TwinHome

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)
LATE = "iam=15,pod-identity=60"
"""A minute instead of AWS's seconds, so even on a slow machine the association is too late."""


def test_karpenter_has_no_credentials_at_first_and_starts_nodes_all_the_same(tmp_path: Path) -> None:
    with karpenter_twin(TwinHome(tmp_path / "home"), LATE) as late:
        said = (late.home.logs / "agent.log").read_text()
        assert "no association of kube-system/karpenter is known" in said
        assert "karpenter ended while it was starting: starting it again" in said
        assert late.instances("g5"), "Triton has a node"
