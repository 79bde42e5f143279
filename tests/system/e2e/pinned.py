"""Keys that the slow tests set in their twin's copy of stacks/Pulumi.local.yaml.

They stand apart from those tests so that a test of `make test` can load the stack that they make.
"""

from typing import Any

MONITORING: dict[str, Any] = {
    "triton-eks:monitoring": {
        "runbooks": "https://example.com/runbooks",
        "replicas": 1,
        "retentionDays": 1,
        "storageGiB": 10,
    },
    # Room for Prometheus's pods.
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
"""The wants of a stack for a language model."""

HPA: dict[str, Any] = {
    "triton-eks:triton.autoscaler": "hpa",
    # KEDA would be there for the workers.
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
        # Of g5 one more than pods, for that of the Deployment without a fleet, which goes last.
        for name, nodes in (("g5", 3), ("g6", 1))
    ],
}
"""Rollouts in place on pods that have their releases on their own disks, in two fleets with a model in common."""

PACKED: dict[str, Any] = {
    # In one zone: over zones the pods still spread.
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
"""For the stack of `make up KARPENTER=1`: nodes of four GPUs, and pods of one."""

_SERVING = {"device": "cpu", "sloP95Ms": 2000, "expectedRate": 20, "peakRate": 60, "latencyHistogram": False}
_PATIENT: dict[str, Any] = {
    # A request may wait in the queue while a machine with other work starts servers.
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
    # A node more than pods, for the new one of a rolling update.
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
"""For the stack of `make up GATEWAY=1`: nodes of two kinds, for a fleet on each."""

_PROMPT = {"device": "cpu", "sloP95Ms": 500, "expectedRate": 20, "peakRate": 500, "latencyHistogram": False}
PROMPT: dict[str, Any] = {
    # With the SLO of the samples a request that waits 300 ms is refused by Triton, which on a busy machine says nothing of
    # the gateway; and what one client may send in a second is more than the samples' peak.
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
    # 20 requests/s and three standard deviations are 34, which one Envoy lets through over HTTP.
    "triton-eks:models.serving": {"normalize": _SMALL, "classify": _SMALL},
    "triton-eks:gateway.replicas": 1,
}
"""For the same stack: one Envoy, and a peak that a test can exceed."""

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
"""For the same stack, whose three nodes hold a pod of each release."""
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
"""An ensemble and a step of it on g5; the same when they move to g6, by the two updates of docs/fleets.md."""
