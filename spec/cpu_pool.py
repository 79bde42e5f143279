"""Label and taint of the nodes in `nodes.cpu`, and the placement of the pods that run there.

Without the taint, any other pending pod would land there and keep the nodes alive.
"""

from __future__ import annotations

from typing import Any

from spec.gpu_pool import POOL_LABEL, Taint
from spec.settings.nodes import CPU_POOL_NAME

CPU_TAINT = Taint(key=POOL_LABEL, value=CPU_POOL_NAME, effect="NoSchedule")
LABELS = {POOL_LABEL: CPU_POOL_NAME}


def placement() -> dict[str, Any]:
    """Return the node selector and tolerations of a pod that runs only on these nodes."""
    toleration = {"key": CPU_TAINT.key, "operator": "Equal", "value": CPU_TAINT.value, "effect": CPU_TAINT.effect}
    return {"nodeSelector": dict(LABELS), "tolerations": [toleration]}
