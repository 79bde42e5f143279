"""Keys that the slow tests set in their twin's copy of stacks/Pulumi.local.yaml.

They are in a separate module, so a test of `make test` can load the resulting stack.
"""

from typing import Any

MONITORING: dict[str, Any] = {
    "triton-eks:monitoring": {
        "runbooks": "https://example.com/runbooks",
        "replicas": 1,
        "retentionDays": 1,
        "storageGiB": 10,
    },
    # Space for Prometheus's pods.
    "triton-eks:nodes.system": {"instanceTypes": ["m7i.large"], "min": 1, "desired": 2, "max": 2, "diskGiB": 50},
}

CHAT: dict[str, Any] = {
    "device": "gpu",
    "gpuMemoryMiB": 900,
    "sloP95Ms": 500,
    "expectedRate": 1,
    "peakRate": 2,
    "decoupled": True,
    "longestStreamSeconds": 5,
    "latencyHistogram": False,
    "llm": {"concurrentStreams": 2, "contextTokens": 256, "weightsMiB": 300, "kvBytesPerToken": 1024},
}
"""The stack settings for a language model."""

HPA: dict[str, Any] = {
    "triton-eks:triton.autoscaler": "hpa",
    # The workers would bring KEDA.
    "triton-eks:worker.autoscaler": "none",
    "triton-eks:worker.replicas": 1,
    "triton-eks:worker.minReplicas": None,
    "triton-eks:worker.maxReplicas": None,
}
"""For the stack of `make up AUTOSCALING=1`."""

LOCAL_DISK: dict[str, Any] = {
    "triton-eks:gpu.pools": [
        {
            "name": "g5",
            "instanceTypes": ["g5.xlarge"],
            "capacity": "on-demand",
            "min": 1,
            "desired": 1,
            "max": 1,
            "diskGiB": 200,
            "modelCacheGiB": 10,
        }
    ],
    "triton-eks:models.access": "local",
    # The sha-256 of the word modelctl; no registry has it.
    "triton-eks:models.fetcher": {
        "image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:"
        "83e03e828bcab681e1e7f26ff1d59843cca9b17b8f694239a1b525212e2ae1b0",
    },
}

FLEETS_IN_PLACE: dict[str, Any] = {
    "triton-eks:models.access": "local",
    "triton-eks:models.fetcher": LOCAL_DISK["triton-eks:models.fetcher"],
    "triton-eks:models.serving": {},
    "triton-eks:triton.rollout": "in-place",
    "triton-eks:fleets": [
        {"name": "g5", "models": ["shared", "left"], "replicas": 2},
        {"name": "g6", "models": ["shared", "right"], "pool": "g6", "replicas": 1},
    ],
    "triton-eks:gpu.pools": [
        {
            "name": name,
            "instanceTypes": [f"{name}.xlarge"],
            "capacity": "on-demand",
            "min": 1,
            "desired": nodes,
            "max": 3,
            "diskGiB": 200,
            "modelCacheGiB": 10,
        }
        # g5 has one more than pods, for the pod of the Deployment without a fleet, which is deleted last.
        for name, nodes in (("g5", 3), ("g6", 1))
    ],
}
"""In-place rollouts on pods that have their releases on their own disks, in two fleets with a shared model."""

PACKED: dict[str, Any] = {
    # In one zone: the pods still spread over zones.
    "triton-eks:network.zones": ["us-west-2a", "us-west-2b"],
    "triton-eks:gpu.pools": [
        {
            "name": "g5",
            "instanceTypes": ["g5.12xlarge"],
            "capacity": "on-demand",
            "zones": ["us-west-2a"],
            "min": 0,
            "desired": 0,
            "max": 3,
            "diskGiB": 200,
        }
    ],
    "triton-eks:triton.replicas": 4,
}
"""For the stack of `make up KARPENTER=1`: nodes with four GPUs, and pods with one GPU."""

_SERVING = {"device": "cpu", "sloP95Ms": 2000, "expectedRate": 20, "peakRate": 60, "latencyHistogram": False}
_PATIENT: dict[str, Any] = {
    # A request may wait in the queue while a busy machine starts servers.
    "triton-eks:models.serving": {"normalize": _SERVING, "classify": _SERVING},
}

OLD_KUBERNETES: dict[str, Any] = {
    **_PATIENT,
    "triton-eks:cluster.version": "1.34",
    "triton-eks:triton.replicas": 2,
    "triton-eks:gpu.pools": [
        {
            "name": "g5",
            "instanceTypes": ["g5.xlarge"],
            "capacity": "on-demand",
            "min": 1,
            "desired": 2,
            "max": 3,
            "diskGiB": 200,
        }
    ],
}

FLEETS: dict[str, Any] = {
    **_PATIENT,
    # One node more than pods, for the new pod of a rolling update.
    "triton-eks:gpu.pools": [
        {
            "name": name,
            "instanceTypes": [f"{name}.xlarge"],
            "capacity": "on-demand",
            "min": 1,
            "desired": 3,
            "max": 3,
            "diskGiB": 200,
        }
        for name in ("g5", "g6")
    ],
}
"""For the stack of `make up GATEWAY=1`: nodes of two kinds, with a fleet on each kind."""

_PROMPT = {"device": "cpu", "sloP95Ms": 500, "expectedRate": 20, "peakRate": 500, "latencyHistogram": False}
PROMPT: dict[str, Any] = {
    # With the samples' SLO, Triton refuses a request that waits 300 ms, which says nothing about the gateway on a busy
    # machine. One client may also send more in a second than the samples' peak.
    "triton-eks:models.serving": {"normalize": _PROMPT, "classify": _PROMPT},
}
GATEWAY: dict[str, Any] = {
    **MONITORING,
    **PROMPT,
    "triton-eks:nodes.system": {"instanceTypes": ["m7i.xlarge"], "min": 1, "desired": 2, "max": 2, "diskGiB": 50},
}
"""For the stack of `make up GATEWAY=1`: with Prometheus."""

_SMALL = {"device": "cpu", "sloP95Ms": 500, "expectedRate": 10, "peakRate": 20, "latencyHistogram": False}
OVERLOADED: dict[str, Any] = {
    **GATEWAY,
    # 20 requests/s and three standard deviations are 34, which one Envoy allows over HTTP.
    "triton-eks:models.serving": {"normalize": _SMALL, "classify": _SMALL},
    "triton-eks:gateway.replicas": 1,
}
"""For the same stack: one Envoy, and a peak rate that a test can exceed."""

KEYS: dict[str, Any] = {
    **PROMPT,
    "triton-eks:gateway.clients": {
        "everything": {},
        "team-a": {"models": ["classify"]},
        "team-b": {"models": ["normalize"]},
    },
}
"""For the same stack: clients with keys."""

BLUE_GREEN: dict[str, Any] = {
    **PROMPT,
    "triton-eks:triton.rollout": "blue-green",
    "triton-eks:triton.replicas": 1,
}
"""For the same stack, whose three nodes each run a pod of each release."""
COMPARER_IMAGE: str = LOCAL_DISK["triton-eks:models.fetcher"]["image"]

_BOTH, _ALL = ["normalize"], ["classify", "normalize", "pipeline"]
TWO_FLEETS: tuple[list[dict[str, Any]], ...] = (
    [{"name": "g5", "models": _ALL}, {"name": "g6", "models": _BOTH, "pool": "g6"}],
    [
        {"name": "g5", "models": _ALL, "weights": {"classify": 0, "pipeline": 0}},
        {"name": "g6", "models": _ALL, "pool": "g6"},
    ],
    [{"name": "g5", "models": _BOTH}, {"name": "g6", "models": _ALL, "pool": "g6"}],
)
"""An ensemble and one of its steps on g5; then their move to g6, by the two updates of docs/fleets.md."""
