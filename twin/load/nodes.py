"""Count the nodes that Karpenter starts and ends while pods come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twin.cluster.kube_api import KubeApi, Object

_NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


@dataclass(frozen=True)
class Nodes:
    """Nodes by their NodeClaims: `ready` ones take pods, `starting` ones do not yet, `ending` ones no longer."""

    ready: int
    starting: int
    ending: int


async def look(api: KubeApi) -> Nodes | None:
    """Return the nodes of Karpenter; None in a cluster without it. Raises KubeError."""
    listed = await api.find(_NODE_CLAIMS)
    return None if listed is None else count(listed["items"])


def count(claims: Sequence[Object]) -> Nodes:
    """Return what these NodeClaims say of their nodes."""
    staying = [claim for claim in claims if "deletionTimestamp" not in claim["metadata"]]
    ready = sum(_is_ready(claim) for claim in staying)
    return Nodes(ready, len(staying) - ready, len(claims) - len(staying))


def _is_ready(claim: Object) -> bool:
    conditions = claim.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
